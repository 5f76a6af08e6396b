"""What `make demo` runs: from nothing to the two recordings that offline learning needs."""

import argparse
import shlex
import sys

from lobsdice.cli import main

COMMANDS = (
    "data collect hopper --expert {expert} --medium {others} --random {others} --out {out}",
    "data split {out}/expert.npz --first 5 --drop-actions"
    " --out {out}/demos.npz --rest {out}/others.npz",
    "data join {out}/others.npz {out}/medium.npz {out}/random.npz --out {out}/offline.npz",
    "data info {out}/demos.npz",
    "data check --expert {out}/demos.npz --offline {out}/offline.npz",
)


def demo(out: str, *, expert: int, others: int) -> None:
    """Run each command as a user would, and stop at the first that fails."""
    for command in COMMANDS:
        words = command.format(out=shlex.quote(out), expert=expert, others=others)
        print(f"\n$ lobsdice {words}", flush=True)
        if code := main(shlex.split(words)):
            sys.exit(code)
    print(f"Demonstrations: {out}/demos.npz\nLabelled recordings: {out}/offline.npz")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", default="demo", help="folder to write to")
    parser.add_argument("--expert", type=int, default=105, help="episodes of the expert")
    parser.add_argument("--others", type=int, default=500, help="medium and random episodes, each")
    options = parser.parse_args()
    demo(options.out, expert=options.expert, others=options.others)
