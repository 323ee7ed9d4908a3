# The selection of this run, and the names that all rules share.
import gc
import re

from medheb.workflow import Plan

# Nearly all objects of a plan of thousands of jobs live to its end: looking for garbage among them again and again
# takes a fifth of a dry run.
gc.set_threshold(200_000, 50, 50)

PLAN = Plan(
    ["config/config.yaml", *workflow.overwrite_configfiles],
    workflow.config_settings.config,
)
SOURCES = PLAN.run.config.paths.sources
BENCHMARK = PLAN.run.config.paths.benchmark
RESULTS = PLAN.run.config.paths.results


# The image of all rules where jobs run in Apptainer; docs/cluster.md says how it is made.
container: PLAN.core_image


# Each command of a rule is `medheb <step>` with this run's configuration, whatever machine it runs on.
shell.prefix(PLAN.shell_prefix)

if workflow.output_settings.dryrun:
    logger.info(PLAN.downloads())


wildcard_constraints:
    dataset="|".join(PLAN.fetched),
    images="|".join(sorted({PLAN.images_folder(dataset) for dataset in PLAN.datasets})),
    task="|".join(PLAN.tasks),
    graded="|".join(PLAN.graded),
    group="|".join(re.escape(group) for group in PLAN.groups),
    index="|".join(
        task.index.removesuffix(".json") for task in PLAN.run.every_task.values()
    ),
    model="|".join(PLAN.models),
    number=r"[1-9][0-9]*",
    parts=r"[1-9][0-9]*",
