"""Every instruction and every fixed question of the 107 tasks is the paper's (section A.6), mistakes included."""

from pathlib import Path

import pytest

from medheb.manifest.load import load_tasks

TASKS = Path(__file__).resolve().parents[2] / "manifests" / "tasks.tsv"
QUESTION = "Represent the given {} with the following question:"
SERIES = "Find a{} series that matches the given {}:"

# By family; of the beginnings of a task key that stand here the longest holds.
INSTRUCTIONS: dict[str, dict[str, str]] = {
    "image-label": {
        "": QUESTION.format("image"),
        "ChirrMRI600": QUESTION.format("MRI series"),
        "MRNet": QUESTION.format("MRI series"),
        "CT_RATE": QUESTION.format("list of images"),
        "NoduleMNIST": QUESTION.format("CT series"),
        "Organ3dMNIST": QUESTION.format("CT series"),
        "SynapseMNIST": QUESTION.format("Electron Microscope"),
    },
    "vqa": {
        "": QUESTION.format("image"),
        "CT_RATE": QUESTION.format("CT series"),
        "M3D": QUESTION.format("CT series"),
        "RGCC": QUESTION.format("CT series"),
    },
    "image-image": {
        "": "Find the same category image with the provided image:",
        "ChirrMRI600": "Find the same category MRI series with the provided MRI series:",
        "MRNet": "Find the same category MRI series with the provided MRI series:",
        "Organ3dMNIST": "Find the same category CT series with the provided CT series:",
    },
    "text-image": {
        "": "Find an image that matches the given category:",
        "ChirrMRI600": SERIES.format("n MRI", "category"),
        "MRNet": SERIES.format("n MRI", "category"),
        "Organ3dMNIST": SERIES.format("n CT", "category"),
        "CT_RATE": SERIES.format(" CT", "report"),
        "M3D": SERIES.format(" CT", "report"),
    },
    "image-report": {
        "ChexpertPlus": "Represent the given chest X-ray image for radiology report retrieval:",
        "MIMIC_CXR": "Represent the given chest X-ray image for radiology report retrieval:",
        "USData": "Represent the given ultrasound image list for radiology report retrieval:",
        "BraTS_MEN": "Find a detailed report summarizing the given Brain MRI series:",
        "M3D": "Find a detailed report summarizing the given CT series:",
        "RGCC": "Find a detailed report summarizing the given CT series:",
        "MMDental": "Find a detailed diagnosis summarizing the given CBCT series:",
    },
    "region": {"": "Locate the specific region that corresponds to the provided text description."},
    "modality-bridging": {
        "BraTS_t1": SERIES.format(" T2-weighted MRI", "T1-weighted MRI series"),
        "BraTS_t2": SERIES.format(" T1-weighted MRI", "T2-weighted MRI series"),
        "ChirrMRI600_t1": SERIES.format(" T2-weighted MRI", "T1-weighted MRI series"),
        "ChirrMRI600_t2": SERIES.format(" T1-weighted MRI", "T2-weighted MRI series"),
        "CT_RATE": SERIES.format(" CT", "chest X-ray image"),
        "HaNSeg": SERIES.format(" CT", "MRI series"),
        "SynthRAD_brain_mri2ct": SERIES.format(" CT", "MRI series"),
        "SynthRAD_pelvis_mri2ct": SERIES.format(" CT", "MRI series"),
        "SynthRAD_brain_ct2mri": SERIES.format("n MRI", "CT series"),
        "SynthRAD_pelvis_ct2mri": SERIES.format("n MRI", "CT series"),
    },
    "text-text": {
        "ChexpertPlus": "Identifying impressions based on given radiology findings.",
        "MIMIC_Findings": "Identifying impressions based on given radiology findings.",
        "MedicalQA": "Find the answer of the given question:",
        "MedMCQA": "Find the answer of the given question:",
        "PublicHealthQA": "Find the answer of the given question:",
        "MMDental": "Find the treatment plan of the given diagnosis:",
        "PubMedQA": "Summarize the content of the given context:",
    },
}
CHEST = "What is the radiological abnormal findings observed in this chest X-ray?"
ORGAN = "What is the anatomical structure observed in this image?"
QUESTIONS = {
    "APTOS_cls": "What is the diabetic retinopathy severity level observed in this retinal image?",
    "BloodMNIST_cls": "What is the blood cell category observed in this image?",
    "Brain-Tumor-MRI_cls": "What is the brain tumor diagnostic category observed in this MRI scan?",
    "ChestMNIST_cls": CHEST,
    "ChexpertPlus_cls": CHEST,
    "MIMIC-CXR-LT_cls": CHEST,
    "DermaMNIST_cls": "What is the dermatological diagnostic category observed in this image?",
    "ISIC-2019_cls": "What is the dermatological condition observed in this image?",
    "Kvasir_cls": "What is the endoscopic finding observed in this image?",
    "LC25000_cls": "What is the diagnostic category observed in this histopathological image?",
    "OCTMNIST_cls": "What is the retinal diagnostic category observed in this image?",
    "OrganAMNIST_cls": ORGAN,
    "OrganCMNIST_cls": ORGAN,
    "OrganSMNIST_cls": ORGAN,
    "PathMNIST_cls": "What is the histopathological tissue category observed in this image?",
    "TissueMNIST_cls": "What is the renal cellular category observed in this image?",
    "ChirrMRI600_cls": "What is the degree of liver cirrhosis shown in the picture?",
    "CT_RATE_cls": "What is the pathological finding represented in this list of images?",
    "MRNet_cls": "What type of knee disease is shown in this image?",
    "NoduleMNIST_cls": "What is the nature of the tumor in the chest?",
    "Organ3dMNIST_cls": "What anatomical structure is shown in this image?",
    "SynapseMNIST_cls": "What type of synapse is this?",
}


@pytest.mark.parametrize("family", INSTRUCTIONS)
def test_instructions_are_the_paper_s(family: str) -> None:
    told = INSTRUCTIONS[family]
    found = {key: task.qry_inst for key, task in load_tasks(TASKS).items() if task.family == family}
    assert found == {key: told[max((name for name in told if key.startswith(name)), key=len)] for key in found}
    assert set(found.values()) == set(told.values())


def test_fixed_questions_are_the_paper_s() -> None:
    tasks = load_tasks(TASKS).items()
    assert {key: task.qry_text for key, task in tasks if task.family == "image-label"} == QUESTIONS
