# train: MedEmb, the reference model, from the rebuilt training rows. Not part of `all`: `snakemake train_medemb`.
from medheb.cluster.rules import gpu_resources
from medheb.train.rules import TrainingRules

TRAINING = TrainingRules(PLAN.run)


wildcard_constraints:
    size="|".join(TRAINING.sizes),


# All sizes of medemb.sizes, trained and merged.
rule train_medemb:
    input:
        TRAINING.merged(),
    localrule: True


rule plan_medemb:
    """Lengths and batches of all training rows, so that no GPU waits for them."""
    input:
        lambda wildcards: TRAINING.plan_inputs(wildcards.size),
    output:
        f"{RESULTS}/medemb/{{size}}/plan.json",
        f"{RESULTS}/medemb/{{size}}/plan.parquet",
    log:
        f"{RESULTS}/logs/medemb/{{size}}/plan.log",
    benchmark:
        f"{RESULTS}/benchmarks/medemb/{{size}}/plan.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=16000,
        runtime=720,
    params:
        settings=lambda wildcards: TRAINING.plan_settings(wildcards.size),
        code=lambda _: PLAN.code("medemb_plan"),
    shell:
        "medheb train plan {wildcards.size} > {log} 2>&1"


rule fit_medemb:
    """One epoch over the planned batches; a job that was killed goes on from its last checkpoint."""
    input:
        f"{RESULTS}/medemb/{{size}}/plan.json",
    output:
        f"{RESULTS}/medemb/{{size}}/training.json",
    log:
        f"{RESULTS}/logs/medemb/{{size}}/fit.log",
    benchmark:
        f"{RESULTS}/benchmarks/medemb/{{size}}/fit.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 8
    resources:
        **gpu_resources(workflow, lambda _: TRAINING.gpus, TRAINING.options.nodes),
        mem_mb=64000,
        runtime=2880,
    params:
        settings=lambda wildcards: TRAINING.settings(wildcards.size),
        code=lambda _: PLAN.code("medemb_fit"),
        ranks=TRAINING.options.ranks,
        nodes=TRAINING.options.nodes,
    shell:
        "medheb train fit {wildcards.size} --ranks {params.ranks} --nodes {params.nodes} --threads {threads} > {log} 2>&1"


rule merge_medemb:
    """The trained adapter merged into the weights, with a model card and the entry for models.yaml."""
    input:
        f"{RESULTS}/medemb/{{size}}/training.json",
    output:
        f"{RESULTS}/medemb/{{size}}/merged/README.md",
    log:
        f"{RESULTS}/logs/medemb/{{size}}/merge.log",
    benchmark:
        f"{RESULTS}/benchmarks/medemb/{{size}}/merge.tsv"
    conda:
        "../../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=32000,
        runtime=120,
    params:
        code=lambda _: PLAN.code("medemb_merge"),
    shell:
        "medheb train merge {wildcards.size} > {log} 2>&1"
