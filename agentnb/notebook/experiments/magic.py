"""The magic ``%%experiment``: parses its line, runs the experiment and shows the results."""

from __future__ import annotations

from argparse import Namespace
from concurrent.futures import Future
from typing import Any

from IPython.core.magic import cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from agentnb.errors import AgentnbError
from agentnb.experiments.design import Design
from agentnb.experiments.experiment import Experiment
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.running.live_experiment import LiveExperiment
from agentnb.notebook.experiments.cell_body import experiment_of_cell
from agentnb.notebook.experiments.progress_box import results_in
from agentnb.notebook.magic_errors import SessionMagics, in_one_line, one_line_errors, parse_options
from agentnb.notebook.variable_names import check_variable


@magics_class
class ExperimentMagics(SessionMagics):
    """The magic ``%%experiment``."""

    @one_line_errors
    @magic_arguments("%experiment")
    @argument(
        "-o", "--out", metavar="NAME", default="results", help="the variable that will hold the results (default: results)"
    )
    @argument("--as", dest="name", metavar="NAME", default="", help="a variable that gets the Experiment itself")
    @argument("--design", action="store_true", help="show runs, cost, time and the minimum detectable effect; run nothing")
    @argument(
        "--background",
        action="store_true",
        help="return at once; watch and steer it with %%agent status, pause, stop. Until it ends, -o NAME holds its handle",
    )
    @no_var_expand
    @cell_magic("experiment")  # type: ignore[arg-type]  # typed for functions, used on methods
    def experiment_cell(self, line: str, cell: str) -> Results | Design | None:
        """Run the experiment that this cell declares: in YAML with the keywords of Experiment, or in Python that ends in one.

        In YAML, tools, checks, guidance sets, data frames and agents are named by their variables, and nothing is executed. A
        box shows its progress, with Pause and Stop; the results are in ``results`` (or -o NAME). Stopped or interrupted, it
        goes on when the cell is run again: only the missing runs are made.
        """
        options = parse_options(ExperimentMagics.experiment_cell, line)
        names = [check_variable(name) for name in (options.out, options.name) if name]
        experiment = experiment_of_cell(self.shell, cell.replace("\r\n", "\n"), self.session.sets)
        if options.name:
            self.shell.user_ns[names[-1]] = experiment
        if options.design:
            return experiment.design()
        return self._run(experiment, options)

    def _run(self, experiment: Experiment, options: Namespace) -> Results | None:
        """Start the experiment, and wait for it unless it runs in the background."""
        with results_in(options.out):
            live = experiment.start()
        if options.background:
            self.shell.user_ns[options.out] = live
            live.add_done_callback(lambda ended: self._keep(options.out, live, ended))
            return None
        results = None
        try:
            results = live.wait()
        except KeyboardInterrupt as interrupt:
            progress = live.progress
            told = f"the experiment was stopped after {progress.done:,} of {progress.total:,} runs"
            raise in_one_line(interrupt, f"KeyboardInterrupt: {told}. Run the cell again to complete the rest") from None
        finally:  # however it ended, the variable holds no results of another experiment
            self.shell.user_ns[options.out] = results or _made_so_far(experiment)
        return results

    def _keep(self, name: str, live: LiveExperiment, ended: Future[Results]) -> None:
        """Replace the handle of a background experiment with its results, unless the variable holds something else."""
        variables: dict[str, Any] = self.shell.user_ns
        if not ended.cancelled() and ended.exception() is None and variables.get(name) is live:
            variables[name] = ended.result()


def _made_so_far(experiment: Experiment) -> Results | None:
    """Return the results of an experiment that was cut short, if any."""
    try:
        return experiment.results()
    except AgentnbError:
        return None
