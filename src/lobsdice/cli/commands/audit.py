"""`lobsdice audit`: is it worth training on these files?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from lobsdice import console
from lobsdice.cli import output
from lobsdice.cli.commands.data import (
    Files,
    Reading,
    read_together,
    read_unlabelled,
    refuse_overwriting,
)
from lobsdice.data.formats import DEFAULTS
from lobsdice.errors import plural

#: The exit code where the files can be read, but something should be mended before training.
WARNING = 3
#: Longer tables are cut; --json and -o show more.
SHOWN = 10


@dataclass(frozen=True)
class Audit:
    """Say, before training, whether the labelled recordings hold what the demonstrations show.

    Exits with 0 if they do, with 3 if they do so in part or not at all, if demonstrated transitions
    leak into them, or if the two seem to be sampled at different rates.

    Example:
        lobsdice audit --expert demos.npz --offline logs.npz
        lobsdice audit --expert demos.npz --offline medium.npz random.npz -o audit.html
    """

    expert: str
    """The demonstrations; actions in them are ignored."""
    offline: Files
    """One or more recordings with actions."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Write the findings to this HTML page."""
    json: bool = False
    """Print JSON instead of tables."""
    read: Reading = DEFAULTS

    def run(self) -> None:
        from lobsdice.data.audit import audit
        from lobsdice.report.audit_page import write_page

        if self.out is not None:
            refuse_overwriting([self.expert, *self.offline], [self.out])
        expert = read_unlabelled(self.expert, self.read)
        found = audit(expert, read_together(self.offline, self.read))
        if self.out is not None:
            write_page(self.out, found)
            console.say(f"wrote {self.out}")
        if self.json:
            output.print_json(found.report())
        else:
            _print(found.report())
        if found.warns:
            raise SystemExit(WARNING)


def _print(report: output.Report) -> None:
    for name in ("expert", "offline"):
        output.print_facts(name, {k: v for k, v in report[name].items() if k != "remarks"})
        for remark in report[name]["remarks"]:
            print(f"{name}: {remark}")
    output.print_facts("nearest offline transitions", report["coverage"])
    output.print_facts("discriminator", report["discriminator"])
    output.print_facts("share nearest to each source", report["sources"])
    _print_first("closest offline episodes", report["closest"])
    _print_first("longest uncovered parts", report["uncovered"])
    if report["leaked_pairs"]:
        count = plural(report["leaked_pairs"], "demonstrated transition")
        print(f"LEAK: {count} occur in the offline data, with their actions")
    if report["rate"]:
        print(f"RATES: {report['rate']['remark']}")
    print(f"{report['verdict'].upper()}: {report['reason']}")


def _print_first(title: str, rows: list[output.Report]) -> None:
    if rows:
        print(f"{title} ({min(SHOWN, len(rows))} of {len(rows)}):")
        output.print_rows(rows[:SHOWN], tuple(rows[0]))
