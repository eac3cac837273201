#!/usr/bin/env python
"""Train one config with several encodings and seeds, and write a table with confidence intervals.

    ndformer compare configs/mnist_pape.py --encodings Sincos AxialRoPE PaPE --seeds 0 1 2 --sample
    ndformer compare configs/mnist_pape.py --encodings Sincos 'PaPE(m=8)' --per-class 10 50 100 --jobs 2
    ndformer compare configs/ucf101_pape.py --folds 1 2 3            the mean over its folds, with an interval
    ndformer compare configs/sign_digits.py --encodings Sincos PaPE --learning-rates 5e-4 1e-3 2e-3
    ndformer compare configs/sign_digits.py --encodings PaPE \\
        --grid optimizer.lr=5e-4,1e-3 optimizer.weight_decay=0,0.1
    ndformer compare CONFIG --on slurm --slurm partition=gpu gpus_per_node=1 timeout_min=240

With a grid each encoding gets the point that validates best on the first seed (and fold), for all seeds; with
--tune-seeds on those seeds, which the table does not have; --tune-options make these runs cheaper. ndformer rank joins
the comparisons of several data sets.

Every cell is a training run in a folder of its own. The same command again resumes what was stopped and skips what is
done. Writes into the work dir: compare.json, compare.md, compare.png. With --onto it writes them into a second folder,
too, and does not train the runs that this folder has with the same settings: long tables can grow on several machines.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path

from ndformer.cli import program
from ndformer.framework.engine.training.owner import owned
from ndformer.framework.errors import ConfigError, UnknownNameError, nearest
from ndformer.framework.evaluation.metric import main_metric
from ndformer.framework.system import processes
from ndformer.lab import cluster, compare_table, earlier_runs, grid
from ndformer.lab.compare import Outcome, Run, check_data, check_folder, outcome, plan
from ndformer.lab.jobs import LOG, Ended, Job, run_jobs


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = program.new_parser(__doc__)
    parser.add_argument(
        "config", metavar="CONFIG", type=program.config_path, help="a file, or the name of one in configs/"
    )
    parser.add_argument(
        "--encodings",
        metavar="NAME",
        nargs="+",
        default=[None],
        help="PaPE, 'PaPE(m=8)'; default: the config's encoding",
    )
    parser.add_argument("--seeds", metavar="N", type=int, nargs="+", help="(0 1 2; with --folds 0)")
    parser.add_argument(
        "--folds", metavar="K", type=int, nargs="+", default=[None], help="of a dataset with a `fold`: UCF101 has 1 2 3"
    )
    parser.add_argument(
        "--per-class", metavar="N", type=int, nargs="+", default=[None], help="number of training samples of each class"
    )
    parser.add_argument(
        "--grid",
        metavar="KEY=A,B",
        nargs="+",
        action="extend",
        default=[],
        help="each encoding gets the best of all combinations of these values",
    )
    parser.add_argument(
        "--learning-rates", metavar="R", type=float, nargs="+", help="short for --grid optimizer.lr=R,R"
    )
    parser.add_argument(
        "--tune-seeds", metavar="N", type=int, nargs="+", default=[], help="seeds of the grid (the first of --seeds)"
    )
    parser.add_argument(
        "--tune-options",
        metavar="KEY=VALUE",
        nargs="+",
        action="extend",
        default=[],
        help="--cfg-options of the runs with --tune-seeds alone: train_dataloader.dataset.per_class=500",
    )
    parser.add_argument("--baseline", metavar="NAME", help="the encoding that gains are relative to (the first)")
    parser.add_argument("--metric", metavar="NAME", help="a metric other than the main one: mAP50")
    program.setting_arguments(parser)
    program.weights_arguments(parser)
    program.device_argument(parser)
    parser.add_argument("--work-dir", metavar="DIR", type=Path, help="default: work_dirs/compare_CONFIG")
    parser.add_argument("--onto", metavar="DIR", type=Path, help="add to the runs there, which are not trained again")
    parser.add_argument("--jobs", metavar="K", type=int, help="runs at once (1; on SLURM all)")
    parser.add_argument("--threads", metavar="T", type=int, help="threads of each (OMP_NUM_THREADS, or all cores / K)")
    parser.add_argument("--on", choices=["slurm", "local"], help="submit each run as a job, through submitit")
    parser.add_argument(
        "--slurm",
        metavar="KEY=VALUE",
        nargs="+",
        action="extend",
        default=[],
        help="of each job: partition=gpu gpus_per_node=1 timeout_min=240",
    )
    args = parser.parse_args(arguments)
    if args.learning_rates:
        args.grid.append(f"optimizer.lr={','.join(map(str, args.learning_rates))}")
    args.seeds = args.seeds or ([0, 1, 2] if None in args.folds else [0])
    if args.tune_seeds and not args.grid:
        raise ConfigError("--tune-seeds needs --grid or --learning-rates")
    if args.slurm and not args.on:
        raise ConfigError("--slurm needs --on slurm, or --on local to try it: without, runs train on this machine")
    if args.tune_options and not args.tune_seeds:
        raise ConfigError("--tune-options needs --tune-seeds: the table must not have runs with other options")
    if both := set(args.tune_seeds) & set(args.seeds):
        raise ConfigError(f"--tune-seeds and --seeds both have {min(both)}: the table must not have seeds of the grid")
    return args


def main(arguments: Sequence[str] | None = None) -> None:
    args = parse(arguments)
    home = args.work_dir or Path(f"work_dirs/compare_{args.config.stem}{'_sample' if args.sample else ''}")
    if args.baseline not in (None, *args.encodings):
        baseline = args.baseline
        raise UnknownNameError(
            f"--baseline {baseline} is not in --encodings{nearest(baseline, filter(None, args.encodings))}"
        )
    program.check_folder("--onto", args.onto)
    if args.onto and args.onto.resolve() == home.resolve():
        raise ConfigError(f"--onto and --work-dir are both {home}: its earlier runs would be lost. Name two folders")
    points = grid.points(args.grid)

    def plan_runs(seeds: Sequence[int], options: Sequence[str] = ()) -> list[Run]:
        return plan(
            args.config,
            args.encodings,
            seeds,
            home,
            args.per_class,
            [*args.cfg_options, *options],
            args.sample,
            args.data_root,
            args.trust_config,
            args.folds,
            points,
            args.weights,
            args.keep_encoding,
        )

    runs = plan_runs(args.seeds)
    tuning = plan_runs(args.tune_seeds, args.tune_options) if args.tune_seeds else []
    cfg = runs[0].cfg
    metric = args.metric or main_metric(cfg.metrics)[0]
    title = f"{args.config.stem}{' --sample' if args.sample else ''}, test {metric} on "
    title += cfg.train_dataloader.dataset.type
    baseline = args.baseline or runs[0].encoding
    tried: list[Outcome] = []

    def report(outcomes: list[Outcome]) -> str:
        text = compare_table.write_report(home, title, metric, baseline, outcomes, tried, args.tune_options)
        if args.onto:
            earlier_runs.add(home, args.onto)
        return text

    if args.onto:
        print(f"{earlier_runs.take_over([*tuning, *runs], args.onto)} runs read from {args.onto}")
    if args.grid:
        tuning = tuning or [r for r in runs if r.seed == runs[0].seed]

        def report_tuning(outcomes: list[Outcome]) -> None:
            nonlocal tried
            tried = outcomes
            report([outcome(run) for run in runs if run.point == points[0]])

        tried = train_runs([r for r in tuning if r.fold == runs[0].fold], args, home, metric, report_tuning)
        best = {row: choice.point for row, choice in grid.choose(tried).items()}
        runs = [r for r in runs if r.point == best.get(r.row, points[0])]
    outcomes = train_runs(runs, args, home, metric, report)
    print(f"\n{report(outcomes)}\n{home}/compare.md, compare.json, compare.png")
    if any(one.failed for one in outcomes):
        sys.exit(1)


def _pool(args: argparse.Namespace, home: Path) -> tuple[str, Callable[..., Generator[Ended, None, None]]]:
    """Return how runs share the machine, as text, and the function that runs jobs."""
    jobs = args.jobs and max(1, args.jobs)
    threads = args.threads or int(os.environ.get("OMP_NUM_THREADS") or 0)
    if args.on == "slurm":
        text = f"{jobs or 'all'} at once, torch threads each: {threads or 'all cores of the job'}"
    else:
        jobs = jobs or 1
        threads = threads or max(1, processes.cores() // jobs)
        text = f"{jobs} at once, torch threads each: {threads}"
    if args.on is None:
        return text, partial(run_jobs, workers=jobs, threads=threads)
    executor = cluster.executor(args.on, home / "jobs", args.slurm, jobs)
    return text, partial(cluster.run_submitted, executor=executor, workers=jobs, threads=threads)


def train_runs(
    runs: Sequence[Run],
    args: argparse.Namespace,
    home: Path,
    metric: str,
    after_each: Callable[[list[Outcome]], object] = lambda outcomes: None,
) -> list[Outcome]:
    """Train the runs that are not done, and return the outcomes of all; `after_each` run gets those so far."""
    damaged = {run.folder: check_folder(run, args.trust_config) for run in runs}
    text, run_all = _pool(args, home)
    by_folder = {run.folder: run for run in runs}
    outcomes = {
        run.folder: Outcome(run, None, damaged[run.folder]) if damaged[run.folder] else outcome(run) for run in runs
    }
    done = sum(run.done for run in runs)
    if done < len(runs):
        check_data(runs, args.sample)
        print(f"{len(runs)} to run, {done} of them done; {text}")
        print(f"logs: {home}/*/{LOG}", flush=True)

    def announce(job: Job) -> None:
        run = by_folder[job.folder]
        verb = "submitted" if args.on else "resumed" if run.begun else "started"
        print(f"{verb}: {run}", flush=True)

    try:
        ending = contextlib.closing(run_all([run.job for run in runs if not run.done], on_start=announce))
        with owned(home), ending as ends:
            for end in ends:
                done += 1
                ended = outcome(by_folder[end.job.folder], end.error)
                outcomes[end.job.folder] = ended
                line = compare_table.line(ended, metric, end.seconds_left)
                print(f"[{done:{len(str(len(runs)))}}/{len(runs)}] {line}", flush=True)
                after_each(list(outcomes.values()))
    except KeyboardInterrupt:
        print(f"\nstopped with {sum(run.done for run in runs)} of {len(runs)} runs done. The same command resumes")
        if args.on == "slurm":
            print("submitted jobs continue; scancel ends them")
        raise
    return list(outcomes.values())


if __name__ == "__main__":
    program.run(main)
