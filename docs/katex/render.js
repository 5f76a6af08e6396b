// Formulas come from pymdownx.arithmatex as \(...\) and \[...\].
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const text = element.textContent.trim();
    katex.render(text.slice(2, -2), element, {
      displayMode: text.startsWith("\\["),
      throwOnError: false, // one faulty formula is shown in red, and the others are drawn
    });
  }
});
