# The selection of this run, and the names that all rules share.
from medheb.workflow import Plan

PLAN = Plan(config, workflow.configfiles, workflow.config_settings.config)
MEDHEB = PLAN.command
SOURCES = PLAN.run.config.paths.sources
BENCHMARK = PLAN.run.config.paths.benchmark
RESULTS = PLAN.run.config.paths.results


wildcard_constraints:
    dataset="|".join(PLAN.datasets),
    images="|".join(sorted({PLAN.images_folder(dataset) for dataset in PLAN.datasets})),
    task="|".join(PLAN.tasks),
    index="|".join(task.index.removesuffix(".json") for task in PLAN.run.tasks.values()),
    model="|".join(PLAN.models),
