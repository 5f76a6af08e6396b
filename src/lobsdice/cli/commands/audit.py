"""`lobsdice audit`."""

from dataclasses import dataclass

from lobsdice import console
from lobsdice.cli import output
from lobsdice.cli.arguments import Files, Page, refuse_overwriting
from lobsdice.data.formats import DEFAULTS, ReadOptions
from lobsdice.data.recordings import read_both
from lobsdice.errors import for_the_shell

#: The exit code if the files can be read, but something should be mended before training.
WARNING = 3
#: Rows of a table at most; --json and -o show more.
SHOWN = 10


@dataclass(frozen=True)
class Audit:
    """Say, before training, whether the offline data covers what the demonstrations show.

    Exits with 0 if it does. Exits with 3 if it does so only in part or not at all, if transitions
    of the demonstrations leak into it, if files hold the same episodes, if the two seem to be
    sampled at different rates or in different units, if actions are copies of states, or if the
    ends of episodes seem to be marked wrongly.

    Example:
        lobsdice audit --expert demos.npz --offline logs.npz
        lobsdice audit --expert demos.npz --offline medium.npz random.npz -o audit.html
    """

    expert: Files
    """One or more files or folders of the demonstrations. Actions in them are ignored."""
    offline: Files
    """One or more files or folders of the offline data: logged episodes with actions."""
    out: Page = None
    """Also write the findings to this HTML page."""
    json: bool = False
    """Print JSON instead of tables."""
    read: ReadOptions = DEFAULTS

    def __call__(self) -> None:
        from lobsdice.data.audit import audit
        from lobsdice.report.audit_page import page
        from lobsdice.report.html import write_page

        if self.out is not None:
            refuse_overwriting([*self.expert, *self.offline], [self.out])
        found = audit(*read_both(self.expert, self.offline, self.read))
        if self.out is not None:
            write_page(self.out, page(found))
            console.say(f"wrote {self.out}")
        if self.json:
            output.print_json(found.report())
        else:
            _print(found.report())
            for sentence in (*found.findings, f"METHOD: {found.advice.sentence}", found.conclusion):
                console.show(for_the_shell(sentence))
        if found.warns:
            raise SystemExit(WARNING)


def _print(report: output.Report) -> None:
    fills = [fill["remark"] for fill in report["fills"]]
    for name in ("expert", "offline"):
        output.print_facts(name, {k: v for k, v in report[name].items() if k != "remarks"})
        for remark in report[name]["remarks"]:
            if remark not in fills:
                console.show(for_the_shell(f"{name}: {remark}"))
    ends = report["ends"]
    for sentence in (ends["summary"], ends["reading"], *ends["remarks"]):
        console.show(for_the_shell(f"ends: {sentence}"))
    output.print_facts("nearest offline transitions", report["coverage"])
    output.print_facts("discriminator", report["discriminator"])
    output.print_facts("share nearest to each source", report["sources"])
    _print_first("closest offline episodes", report["closest"])
    _print_first("longest uncovered parts", report["uncovered"])


def _print_first(title: str, rows: list[output.Report]) -> None:
    if rows:
        console.show(f"{title} ({min(SHOWN, len(rows))} of {len(rows)}):")
        named = [{**row, "episode": row["name"]} for row in rows[:SHOWN]]
        output.print_rows(named, tuple(name for name in rows[0] if name != "name"))
