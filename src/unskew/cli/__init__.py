"""The command line: for people first (tables, bars, progress), with ``--json`` for programs.

One module per command, holding a plain function of the command's name. Whatever is slow to import
(pyspark, numba, matplotlib) is imported inside the function, so that ``unskew --help`` answers at once.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer import Option

from unskew import __version__
from unskew.cli.output import console, print_error
from unskew.errors import ArgumentError, UnskewError

# where each command lies: in the product, or in the laboratory, which is known here by name alone
COMMANDS = {
    "demo": "unskew_lab.cli.demo",
    "doctor": "unskew.cli.doctor",
    "run": "unskew.cli.run",
    "advise": "unskew.cli.advise",
    "watch": "unskew.cli.watch",
    "top": "unskew.cli.watch",
    "history": "unskew.cli.watch",
    "metrics": "unskew.cli.metrics",
    "workload": "unskew.cli.workload",
    "plan": "unskew.cli.plan",
    "planners": "unskew.cli.plan",
    "split": "unskew.cli.split",
    "paper": "unskew_lab.cli.paper",
    "simulate": "unskew_lab.cli.simulate",
    "kafka": "unskew.cli.kafka",
    "bench": "unskew_lab.cli.bench",
    "report": "unskew_lab.cli.report",
}
LAB_PACKAGES = ("unskew_lab", "matplotlib", "scipy")

app = typer.Typer(
    name="unskew",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        console.print(f"unskew {__version__}")
        raise typer.Exit


@app.callback()
def unskew(
    version: Annotated[
        bool, Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, Option("--debug", envvar="UNSKEW_DEBUG", help="Show tracebacks of errors.")] = False,
) -> None:
    """Keep stateful stream processing on Spark balanced when keys are skewed and drift.

    [bold]Examples[/]
    [cyan]unskew demo[/]                      see what skew does to hash partitioning
    [cyan]unskew run --help[/]                balance a stream without writing code
    [cyan]unskew advise SOURCE --key USER[/]  what skew costs, and what would help
    [cyan]unskew watch CHECKPOINT[/]          a live page on a query, running or not
    [cyan]unskew doctor[/]                    does what is installed fit together
    [cyan]unskew workload zipf --describe[/]  how skewed a workload is
    [cyan]unskew bench --list[/]              what can be measured
    """


def _register() -> None:
    for name, module_name in COMMANDS.items():
        if importlib.util.find_spec(module_name):
            command = getattr(importlib.import_module(module_name), name)
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=name)
            else:
                app.command(name)(command)


_register()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 when all is well, 2 after an error in what the user gave."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    try:
        sys.exit(app(args=given, prog_name="unskew", standalone_mode=not as_json))
    except UnskewError as error:
        if "--debug" in given or os.environ.get("UNSKEW_DEBUG"):
            raise
        print_error(error, as_json)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in LAB_PACKAGES:
            raise
        missing = f"this command belongs to the laboratory, which needs {error.name}"
        print_error(ArgumentError(missing, hint="pip install 'unskew[lab]'"), as_json)
    except OSError as error:
        if "--debug" in given or os.environ.get("UNSKEW_DEBUG"):
            raise
        hint = "check that the path is right, and that you may read or write there"
        print_error(ArgumentError(error.strerror or str(error), where=error.filename, hint=hint), as_json)
    except KeyboardInterrupt:
        sys.exit(130)
    except typer.TyperException as error:  # a wrong option; typer prints it itself unless JSON is wanted
        print_error(ArgumentError(error.format_message().rstrip(".")), as_json)
    sys.exit(2)
