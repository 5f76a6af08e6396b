"use strict";

const shown = value => {
  if (value === null) return "–";
  const size = Math.abs(value);
  const text = Number.isInteger(value) || (size >= 1000 && size < 1e7)
    ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(4)));
  return text.replace("-", "−");
};

const element = (kind, name, text = "") => {
  const made = document.createElement(kind);
  made.className = name;
  made.textContent = text;
  return made;
};

/* Show the values of a chart at the pointer, or at a place chosen by the arrow keys. */
function readable(figure) {
  const data = JSON.parse(figure.dataset.chart);
  const plot = figure.querySelector(".plot");
  const scale = data.log ? Math.log : value => value;
  const across = x => (x - data.first) / (data.last - data.first);
  const down = y => (scale(data.high) - scale(Math.max(y, data.log ? data.low : y)))
    / (scale(data.high) - scale(data.low));
  const layer = plot.appendChild(element("div", "layer"));
  let place = data.x.length - 1;

  const rows = () => {
    const all = data.lines.filter(line => line.y[place] !== null);
    const thick = all.filter(line => !line.thin), thin = all.filter(line => line.thin);
    thick.sort((a, b) => b.y[place] - a.y[place]);
    return [...thick, ...(thin.length > 8 ? [] : thin)];
  };

  const tip = () => {
    const box = element("div", "tip");
    box.append(element("b", "", data.label + " " + shown(data.x[place])));
    for (const line of rows()) {
      const row = box.appendChild(element("div", line.thin ? "thin" : ""));
      row.append(element("i", line.colour), element("span", "", line.name),
        element("span", "", shown(line.y[place])));
    }
    const x = across(data.x[place]);
    box.style[x > 0.5 ? "right" : "left"] = "calc(" + 100 * (x > 0.5 ? 1 - x : x) + "% + 10px)";
    return box;
  };

  const show = where => {
    place = Math.max(0, Math.min(data.x.length - 1, where));
    const cursor = element("div", "cursor");
    cursor.style.left = 100 * across(data.x[place]) + "%";
    const dots = rows().filter(line => !line.thin).map(line => {
      const dot = element("div", "dot " + line.colour);
      dot.style.left = cursor.style.left;
      dot.style.top = 100 * Math.max(0, Math.min(1, down(line.y[place]))) + "%";
      return dot;
    });
    layer.replaceChildren(cursor, ...dots, tip());
    plot.setAttribute("aria-valuenow", place);
    plot.setAttribute("aria-valuetext", data.label + " " + shown(data.x[place]) + ": "
      + rows().map(line => line.name + " " + shown(line.y[place])).join(", "));
  };
  const hide = () => layer.replaceChildren();

  const point = event => {
    const box = plot.getBoundingClientRect();
    const x = data.first + (event.clientX - box.left) / box.width * (data.last - data.first);
    let nearest = 0;
    data.x.forEach((value, i) => {
      if (Math.abs(value - x) < Math.abs(data.x[nearest] - x)) nearest = i;
    });
    show(nearest);
  };

  const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
  const keys = event => {
    if (event.key === "Escape") return hide();
    const ends = { Home: 0, End: data.x.length - 1 };
    if (!(event.key in moves) && !(event.key in ends)) return;
    event.preventDefault();
    show(event.key in moves ? place + moves[event.key] : ends[event.key]);
  };

  /* For screen readers a chart is a slider along its horizontal axis. */
  const role = { role: "slider", tabindex: 0, "aria-valuemin": 0,
    "aria-valuemax": data.x.length - 1, "aria-valuenow": place,
    "aria-valuetext": plot.getAttribute("aria-label") };
  for (const [name, value] of Object.entries(role)) plot.setAttribute(name, value);
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerdown", point);
  plot.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") hide(); });
  plot.addEventListener("keydown", keys);
  plot.addEventListener("blur", hide);
}

/* A click on a heading sorts by its column: the largest number or the first word comes first. */
function sortable(table) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  const text = (a, b) => a.textContent.localeCompare(b.textContent, "en", { numeric: true });
  const value = cell => Number(cell.dataset.value ?? -Infinity);
  const largest = (a, b) => value(a) === value(b) ? 0 : value(b) - value(a);
  headings.forEach((heading, column) => heading.querySelector("button").addEventListener("click", () => {
    const numbers = heading.classList.contains("number");
    const usual = numbers ? "descending" : "ascending";
    const order = heading.getAttribute("aria-sort") === usual
      ? (numbers ? "ascending" : "descending") : usual;
    const sign = order === usual ? 1 : -1;
    const compare = numbers ? largest : text;
    const rows = [...body.rows].sort((a, b) => sign * compare(a.cells[column], b.cells[column]));
    headings.forEach(other => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", order);
    body.append(...rows);
  }));
}

/* Play the clips of a group together; all show the same moment. */
function playable(group) {
  const films = [...group.querySelectorAll(".film")];
  const bar = group.querySelector("input"), button = group.querySelector("button");
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let timer = null;

  const draw = () => films.forEach(film => {
    const { frames, columns } = film.dataset;
    const frame = Math.min(bar.value, frames - 1), lines = Math.ceil(frames / columns);
    const share = (at, count) => count > 1 ? 100 * at / (count - 1) + "%" : "0%";
    film.style.backgroundPosition = share(frame % columns, columns) + " "
      + share(Math.floor(frame / columns), lines);
    bar.setAttribute("aria-valuetext", (bar.value * group.dataset.seconds).toFixed(1) + " seconds");
  });
  const step = () => {
    bar.value = Number(bar.value) === Number(bar.max) ? 0 : Number(bar.value) + 1;
    draw();
  };
  const toggle = () => {
    timer = timer ? clearInterval(timer) : setInterval(step, 1000 * group.dataset.seconds);
    button.textContent = timer ? "Pause" : "Play";
  };
  button.addEventListener("click", toggle);
  bar.addEventListener("input", draw);
  draw();
  if (!still) toggle();
}

document.querySelectorAll("[data-chart]").forEach(readable);
document.querySelectorAll("table.sortable").forEach(sortable);
document.querySelectorAll(".films").forEach(playable);
