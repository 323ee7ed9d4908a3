"""Recipe names of the manifests, and where their code is.

Code is imported when a source is built: the Snakefile reads this table for each job, and a change of one recipe
must rerun its own sources only.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medheb.core.errors import MedhebError
from medheb.manifest.dataset import Dataset

if TYPE_CHECKING:
    from medheb.build.recipe import Recipe


@dataclass(frozen=True)
class Entry:
    """One recipe.

    Args:
        module: module that holds it.
        version: of what it makes; manifests pin the version they were checked with.
        follows_protocol: ``release`` and ``corrected`` give different files.
        follows_projector: it makes X-rays with the projector of the run.
        attribute: name of the recipe in its module.
    """

    module: str
    version: int = 1
    follows_protocol: bool = True
    follows_projector: bool = False
    attribute: str = "RECIPE"


RECIPES: dict[str, Entry] = {
    # demo set
    "brain_slabs": Entry("medheb.build.demo.brain_slabs", follows_protocol=False),
    "icd10cm": Entry("medheb.build.demo.text_records", follows_protocol=False, attribute="ICD10CM"),
    "openi_reports": Entry("medheb.build.demo.text_records", follows_protocol=False, attribute="OPENI"),
    "organ_volume": Entry("medheb.build.demo.organ_volume", follows_protocol=False),
    "phenotypes": Entry("medheb.build.demo.text_records", follows_protocol=False, attribute="PHENOTYPES"),
    # benchmark sources
    "chest_imagenome_crops": Entry("medheb.build.chest_imagenome_crops"),
    "chexpert_plus": Entry("medheb.build.chexpert_plus", version=2, follows_protocol=False),
    "medical_qa": Entry("medheb.build.text_medical_qa", follows_protocol=False),
    "medmcqa": Entry("medheb.build.text_medmcqa", follows_protocol=False),
    "mimic_cxr_vqa": Entry("medheb.build.mimic_cxr_vqa", version=2, follows_protocol=False),
    "mimic_cxr": Entry("medheb.build.mimic_cxr", version=3, follows_protocol=False),
    "mimic_cxr_lt": Entry("medheb.build.mimic_cxr_lt"),
    "class_folders": Entry("medheb.build.class_folders", follows_protocol=False),
    "brats_men": Entry("medheb.build.brats_men"),
    "brats_ped": Entry("medheb.build.brats_ped"),
    "cirrmri600": Entry("medheb.build.cirrmri600"),
    "ct_rate": Entry("medheb.build.ct_rate", follows_projector=True),
    "hub_vqa": Entry("medheb.build.hub_vqa", follows_protocol=False),
    "labelled_pictures": Entry("medheb.build.labelled_pictures", follows_protocol=False),
    "kvasir_seg_crops": Entry("medheb.build.kvasir_seg_crops"),
    "m3d": Entry("medheb.build.m3d"),
    "public_health_qa": Entry("medheb.build.text_public_health_qa"),
    "pubmedqa": Entry("medheb.build.text_pubmedqa", follows_protocol=False),
    "roco_qa": Entry("medheb.build.roco_qa"),
    "usdata": Entry("medheb.build.usdata", follows_protocol=False),
    "medsegbench_crops": Entry("medheb.build.medsegbench_crops"),
    "han_seg": Entry("medheb.build.han_seg"),
    "medmnist2d": Entry("medheb.build.medmnist2d"),
    "medmnist3d": Entry("medheb.build.medmnist3d"),
    "mmdental": Entry("medheb.build.mmdental"),
    "mrnet": Entry("medheb.build.mrnet"),
    "omnimedvqa": Entry("medheb.build.choice_vqa", follows_protocol=False, attribute="OMNIMEDVQA"),
    "pannuke": Entry("medheb.build.pannuke"),
    "pmc_vqa": Entry("medheb.build.choice_vqa", follows_protocol=False, attribute="PMC_VQA"),
    "radgenome_chest_ct": Entry("medheb.build.radgenome_chest_ct"),
    "synthrad2023": Entry("medheb.build.synthrad2023"),
    "vindr_cxr": Entry("medheb.build.vindr_cxr"),
    "vindr_mammo": Entry("medheb.build.vindr_mammo"),
    # pictures kept as the source stores them
}


def entry_of(dataset: Dataset) -> Entry:
    """The table's line for the recipe that a manifest names.

    Raises:
        MedhebError: no such recipe, or the code makes another version of its result than the manifest asks for.
    """
    where = f"manifest of {dataset.id}"
    known = RECIPES.get(dataset.recipe.name)
    if known is None:
        raise MedhebError(
            where,
            f"names recipe '{dataset.recipe.name}', which this version does not have",
            f"It has {', '.join(sorted(RECIPES))}; correct the manifest, or use a version that has the recipe",
        )
    if known.version != dataset.recipe.version:
        raise MedhebError(
            where,
            f"key 'recipe.version' is {dataset.recipe.version}, but this code makes version {known.version}",
            "Set it to what the code makes after checking the result, or use the code that fits",
        )
    return known


def recipe_of(dataset: Dataset) -> Recipe:
    """The recipe that a manifest names; see :func:`entry_of` for errors."""
    entry = entry_of(dataset)
    recipe: Recipe = getattr(importlib.import_module(entry.module), entry.attribute)
    return recipe
