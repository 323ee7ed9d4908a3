"""Recipe names of the manifests, and what they call."""

from __future__ import annotations

from medheb.build.brain_slabs import brain_slabs
from medheb.build.organ_volume import organ_volume
from medheb.build.recipe import RegisteredRecipe
from medheb.build.text_records import icd10cm, openi
from medheb.core.errors import MedhebError
from medheb.manifest.dataset import Dataset

RECIPES: dict[str, RegisteredRecipe] = {
    "brain_slabs": RegisteredRecipe(brain_slabs, 1),
    "icd10cm": RegisteredRecipe(icd10cm, 1),
    "openi_reports": RegisteredRecipe(openi, 1),
    "organ_volume": RegisteredRecipe(organ_volume, 1),
}


def recipe_of(dataset: Dataset) -> RegisteredRecipe:
    """The recipe that a manifest names.

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
