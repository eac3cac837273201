#!/usr/bin/env python
"""Train one config with several encodings and seeds, and write a table with confidence intervals.

    python tools/compare.py configs/mnist_pape.py --encodings Sincos AxialRoPE PaPE --seeds 0 1 2 --sample
    python tools/compare.py configs/mnist_pape.py --encodings Sincos 'PaPE(m=8)' --per-class 10 50 100 --jobs 2
    python tools/compare.py configs/ucf101_pape.py --folds 1 2 3            the mean over its folds, with an interval
    python tools/compare.py configs/sign_digits.py --encodings Sincos PaPE --learning-rates 5e-4 1e-3 2e-3
    python tools/compare.py configs/sign_digits.py --encodings PaPE \\
        --grid optimizer.lr=5e-4,1e-3 optimizer.weight_decay=0,0.1

With a grid each encoding gets the point that validates best on the first seed (and fold); all seeds are trained with
that. tools/rank.py joins the comparisons of several data sets.

Every cell is a run of tools/train.py in a folder of its own. The same command again goes on where it was stopped: what
is done is not run again. Leaves in the work dir: compare.json, compare.md, compare.png.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ndformer.framework.engine.programs import cli
from ndformer.framework.engine.training.owner import owned
from ndformer.framework.errors import UnknownNameError, nearest
from ndformer.framework.evaluation.metric import main_metric
from ndformer.framework.system import processes
from ndformer.lab import compare_table, grid
from ndformer.lab.compare import Outcome, Run, check_data, check_folder, outcome, plan
from ndformer.lab.jobs import LOG, Job, run_jobs


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = cli.new_parser(__doc__)
    parser.add_argument("config", metavar="CONFIG", type=cli.config_path, help="a file, or the name of one in configs/")
    parser.add_argument(
        "--encodings", metavar="NAME", nargs="+", default=[None], help="PaPE, 'PaPE(m=8)'; default: its own"
    )
    parser.add_argument("--seeds", metavar="N", type=int, nargs="+", help="(0 1 2; with --folds 0)")
    parser.add_argument(
        "--folds", metavar="K", type=int, nargs="+", default=[None], help="of a dataset with a `fold`: UCF101 has 1 2 3"
    )
    parser.add_argument(
        "--per-class", metavar="N", type=int, nargs="+", default=[None], help="so many training samples of each class"
    )
    parser.add_argument(
        "--grid",
        metavar="KEY=A,B",
        nargs="+",
        action="extend",
        default=[],
        help="each encoding gets its best of these values, of all combinations",
    )
    parser.add_argument(
        "--learning-rates", metavar="R", type=float, nargs="+", help="short for --grid optimizer.lr=R,R"
    )
    parser.add_argument("--baseline", metavar="NAME", help="the encoding that gains are over (the first)")
    parser.add_argument("--metric", metavar="NAME", help="another value than the main one: mAP50")
    cli.setting_arguments(parser)
    cli.weights_arguments(parser)
    cli.device_argument(parser)
    parser.add_argument("--work-dir", metavar="DIR", type=Path, help="default: work_dirs/compare_CONFIG")
    parser.add_argument("--jobs", metavar="K", type=int, default=1, help="runs at once (1)")
    parser.add_argument("--threads", metavar="T", type=int, help="threads of each (OMP_NUM_THREADS, or all cores / K)")
    given = parser.parse_args(arguments)
    if given.learning_rates:
        given.grid.append(f"optimizer.lr={','.join(map(str, given.learning_rates))}")
    given.seeds = given.seeds or ([0, 1, 2] if None in given.folds else [0])
    return given


def main(arguments: Sequence[str] | None = None) -> None:
    given = parse(arguments)
    home = given.work_dir or Path(f"work_dirs/compare_{given.config.stem}{'_sample' if given.sample else ''}")
    if given.baseline not in (None, *given.encodings):
        baseline = given.baseline
        raise UnknownNameError(f"--baseline {baseline} is none of --encodings{nearest(baseline, given.encodings)}")
    points = grid.points(given.grid)
    runs = plan(
        given.config,
        given.encodings,
        given.seeds,
        home,
        given.per_class,
        given.cfg_options,
        given.sample,
        given.data_root,
        given.trust_config,
        given.folds,
        points,
        given.weights,
        given.keep_encoding,
    )
    cfg = runs[0].cfg
    metric = given.metric or main_metric(cfg.metrics)[0]
    title = f"{given.config.stem}{' --sample' if given.sample else ''}, test {metric} on "
    title += cfg.train_dataloader.dataset.type
    report = compare_table.Report(home, title, metric, given.baseline or runs[0].encoding)
    tried: list[Outcome] = []
    if given.grid:
        first = runs[0].seed, runs[0].fold
        tried = trained([run for run in runs if (run.seed, run.fold) == first], given, home, report.metric)
        best = {row: choice.point for row, choice in grid.choose(tried).items()}
        runs = [run for run in runs if run.point == best.get(run.row, points[0])]
    outcomes = trained(runs, given, home, report.metric, lambda some: report.write(some, tried))
    print(f"\n{report.write(outcomes, tried)}\n{home}/compare.md, compare.json, compare.png")
    if any(one.failed for one in outcomes):
        sys.exit(1)


def trained(
    runs: Sequence[Run],
    given: argparse.Namespace,
    home: Path,
    metric: str,
    after_each: Callable[[list[Outcome]], object] = lambda outcomes: None,
) -> list[Outcome]:
    """Train the runs that are not done, and return the outcomes of all; `after_each` run gets those so far."""
    damaged = {run.folder: check_folder(run, given.trust_config) for run in runs}
    jobs = max(1, given.jobs)
    threads = given.threads or int(os.environ.get("OMP_NUM_THREADS") or max(1, processes.cores() // jobs))
    by_folder = {run.folder: run for run in runs}
    outcomes = {
        run.folder: Outcome(run, None, damaged[run.folder]) if damaged[run.folder] else outcome(run) for run in runs
    }
    done = sum(run.done for run in runs)
    if done < len(runs):
        check_data(runs, given.sample)
        print(f"{len(runs)} to run, {done} of them done; {jobs} at once, torch threads each: {threads}")
        print(f"logs: {home}/*/{LOG}", flush=True)

    def announce(job: Job) -> None:
        run = by_folder[job.folder]
        print(f"{'resumed' if run.begun else 'started'}: {run}", flush=True)

    try:
        ending = contextlib.closing(run_jobs([run.job for run in runs if not run.done], jobs, threads, announce))
        with owned(home), ending as ends:
            for end in ends:
                done += 1
                ended = outcome(by_folder[end.job.folder], end.error)
                outcomes[end.job.folder] = ended
                line = compare_table.line(ended, metric, end.seconds_left)
                print(f"[{done:{len(str(len(runs)))}}/{len(runs)}] {line}", flush=True)
                after_each(list(outcomes.values()))
    except KeyboardInterrupt:
        print(f"\nstopped with {sum(run.done for run in runs)} of {len(runs)} runs done: the same command goes on")
        raise
    return list(outcomes.values())


if __name__ == "__main__":
    cli.run(main)
