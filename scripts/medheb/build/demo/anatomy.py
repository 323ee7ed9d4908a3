"""Readable names of anatomical structures, from the names that label maps use.

A label map says ``kidney_left``; texts say "left kidney". Structures also get a group (without side and level),
a side, and a body system, which tasks ask for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from medheb.core.errors import MedhebError

Side = Literal["left", "right"]

# Label map name without its side -> readable name, body system.
STRUCTURES: dict[str, tuple[str, str]] = {
    "adrenal_gland": ("adrenal gland", "endocrine system"),
    "aorta": ("aorta", "cardiovascular system"),
    "autochthon": ("deep back muscles", "muscular system"),
    "brachiocephalic_trunk": ("brachiocephalic trunk", "cardiovascular system"),
    "brain": ("brain", "nervous system"),
    "celiac_trunk": ("celiac trunk", "cardiovascular system"),
    "clavicula": ("clavicle", "skeletal system"),
    "colon": ("colon", "digestive system"),
    "common_carotid_artery": ("common carotid artery", "cardiovascular system"),
    "costal_cartilages": ("costal cartilages", "skeletal system"),
    "duodenum": ("duodenum", "digestive system"),
    "esophagus": ("esophagus", "digestive system"),
    "femur": ("femur", "skeletal system"),
    "gallbladder": ("gallbladder", "digestive system"),
    "gluteus_maximus": ("gluteus maximus muscle", "muscular system"),
    "gluteus_medius": ("gluteus medius muscle", "muscular system"),
    "gluteus_minimus": ("gluteus minimus muscle", "muscular system"),
    "heart": ("heart", "cardiovascular system"),
    "hip": ("hip bone", "skeletal system"),
    "humerus": ("humerus", "skeletal system"),
    "iliac_artery": ("iliac artery", "cardiovascular system"),
    "iliac_vena": ("iliac vein", "cardiovascular system"),
    "iliopsoas": ("iliopsoas muscle", "muscular system"),
    "inferior_vena_cava": ("inferior vena cava", "cardiovascular system"),
    "intervertebral_discs": ("intervertebral discs", "skeletal system"),
    "kidney": ("kidney", "urinary system"),
    "liver": ("liver", "digestive system"),
    "lung": ("lung", "respiratory system"),
    "pancreas": ("pancreas", "digestive system"),
    "portal_vein_and_splenic_vein": ("portal and splenic vein", "cardiovascular system"),
    "prostate": ("prostate", "reproductive system"),
    "pulmonary_artery": ("pulmonary artery", "cardiovascular system"),
    "sacrum": ("sacrum", "skeletal system"),
    "scapula": ("scapula", "skeletal system"),
    "small_bowel": ("small bowel", "digestive system"),
    "spinal_cord": ("spinal cord", "nervous system"),
    "spleen": ("spleen", "lymphatic system"),
    "sternum": ("sternum", "skeletal system"),
    "stomach": ("stomach", "digestive system"),
    "subclavian_artery": ("subclavian artery", "cardiovascular system"),
    "superior_mesenteric_artery": ("superior mesenteric artery", "cardiovascular system"),
    "thyroid_gland": ("thyroid gland", "endocrine system"),
    "trachea": ("trachea", "respiratory system"),
    "urinary_bladder": ("urinary bladder", "urinary system"),
    "vertebrae": ("vertebrae", "skeletal system"),
}
VERTEBRA = re.compile(r"^vertebrae_([CTLS]\d{1,2})$")
RIB = re.compile(r"^rib_(left|right)_(\d{1,2})$")
LOBE = re.compile(r"^lung_(upper|middle|lower)_lobe_(left|right)$")
SIDED = re.compile(r"^(.+)_(left|right)$")
ORDINALS = ("1st", "2nd", "3rd", *(f"{number}th" for number in range(4, 13)))


@dataclass(frozen=True)
class Structure:
    """How texts speak of one structure.

    ``label`` keeps side and level ("left 7th rib"); ``group`` drops both ("rib"); ``side`` is the patient's.
    """

    label: str
    group: str
    side: Side | None
    system: str


def structure(name: str, where: str) -> Structure:
    """The structure behind a label map's name.

    Raises:
        MedhebError: the name is not known; ``where`` names the file.
    """
    side: Side | None
    if match := VERTEBRA.match(name):
        return Structure(f"{match[1]} vertebra", "vertebrae", None, "skeletal system")
    if match := RIB.match(name):
        side = "left" if match[1] == "left" else "right"
        ordinal = ORDINALS[int(match[2]) - 1] if 1 <= int(match[2]) <= len(ORDINALS) else f"number {match[2]}"
        return Structure(f"{side} {ordinal} rib", "rib", side, "skeletal system")
    if match := LOBE.match(name):
        side = "left" if match[2] == "left" else "right"
        return Structure(f"{match[1]} lobe of the {side} lung", "lung", side, "respiratory system")
    base, side = name, None
    if match := SIDED.match(name):
        base, side = match[1], "left" if match[2] == "left" else "right"
    if base not in STRUCTURES:
        raise MedhebError(
            where, f"holds the label '{name}', which has no readable name", "Leave it out in the manifest"
        )
    readable, system = STRUCTURES[base]
    return Structure(f"{side} {readable}" if side else readable, readable, side, system)
