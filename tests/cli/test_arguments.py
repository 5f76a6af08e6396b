"""What commands do with their arguments."""

from pathlib import Path

from lobsdice.cli.arguments import readable
from lobsdice.errors import LobsDICEError


def test_what_is_left_out_names_options_as_the_shell_does(capsys):
    def read(folder: Path) -> None:
        raise LobsDICEError(f"{folder}: state `action_low`")

    assert readable([Path("runs")], read) == {}
    assert capsys.readouterr().err == "left out: runs: state --action-low\n"
