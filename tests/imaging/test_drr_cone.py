"""The cone-beam projector against closed forms, an independent ray march, and every storage order."""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path

import nibabel
import numpy as np
import pytest
from scipy import ndimage

from medheb.core.errors import MedhebError
from medheb.imaging.drr.beam import Beam, interpolate, load_beam, spectra
from medheb.imaging.drr.cone import _aligned, areal_density
from medheb.imaging.drr.geometry import Geometry, View, middle
from medheb.imaging.drr.normalise import attenuation, neglog, picture
from medheb.imaging.drr.oblique import march
from medheb.imaging.drr.parity import compare, small_body, small_geometry
from medheb.imaging.drr.preparation import check_grid, check_hu, materials
from medheb.imaging.nifti import read_nifti
from medheb.imaging.volume import Volume

VIEWS: tuple[View, View] = ("AP", "PA")
WATER = 1.03  # g/cm3 of HU 0
NOTHING = -WATER / 0.001029  # HU of density 0, about -1001


def rays(geometry: Geometry, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Focal spot (3,) and unit directions (3, H, W) of the displayed picture, from the camera matrices alone."""
    world_from_camera = np.linalg.inv(geometry.camera_from_world(centre))
    pixels = np.arange(geometry.pixels) + 0.5
    columns = pixels[::-1] if geometry.mirrored else pixels
    grid = np.stack([*np.meshgrid(columns, pixels), np.ones((geometry.pixels,) * 2)])
    camera = np.einsum("ij,jhw->ihw", np.linalg.inv(geometry.intrinsic()), grid)
    direction = np.einsum("ij,jhw->ihw", world_from_camera[:3, :3], camera)
    return world_from_camera[:3, 3], direction / np.linalg.norm(direction, axis=0)


def box_chords(source: np.ndarray, direction: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        near, far = ((edge - source)[:, None, None] / direction for edge in (low, high))
    enter, leave = np.minimum(near, far).max(axis=0), np.maximum(near, far).min(axis=0)
    return np.maximum(leave - enter, 0)


def ball_chords(source: np.ndarray, direction: np.ndarray, centre: np.ndarray, radius: float) -> np.ndarray:
    along = np.einsum("ihw,i->hw", direction, centre - source)
    distance = ((centre - source) ** 2).sum() - along**2
    return 2 * np.sqrt(np.maximum(radius**2 - distance, 0))


def box(voxels: tuple[int, int, int], half: tuple[int, int, int]) -> Volume:
    """Water box of 2 x half voxels of 1 mm in air, the middle at the world's origin."""
    hu = np.full(voxels, -1000, dtype=np.int16)
    inside = tuple(slice(n // 2 - h, n // 2 + h) for n, h in zip(voxels, half, strict=True))
    hu[inside] = 0
    affine = np.eye(4)
    affine[:3, 3] = -(np.array(voxels) - 1) / 2
    return Volume(hu, affine, "box")


def balls(centres: list[tuple[float, float, float]], radius: float, shape: tuple[int, int, int]) -> Volume:
    """Anti-aliased balls of water in nothing; voxels of 1 mm, the middle at the world's origin."""
    place = np.meshgrid(*(np.arange(n) - (n - 1) / 2 for n in shape), indexing="ij")
    share = np.zeros(shape)
    for centre in centres:
        distance = np.sqrt(sum((axis - c) ** 2 for axis, c in zip(place, centre, strict=True)))
        share = np.maximum(share, np.clip(radius - distance + 0.5, 0, 1))
    affine = np.eye(4)
    affine[:3, 3] = -(np.array(shape) - 1) / 2
    return Volume(((1 - share) * NOTHING).astype(np.float32), affine, "balls")


def centroid(image: np.ndarray) -> tuple[float, float]:
    """Column and row of the centre of mass; 0.5 is the first pixel's centre."""
    row, column = ndimage.center_of_mass(image)
    return column + 0.5, row + 0.5


def water_path(volume: Volume, geometry: Geometry) -> np.ndarray:
    """Millimetres of water along each ray; the thin rim of air that the projector puts around a volume is taken out."""
    path = areal_density(volume, geometry).sum(axis=0) / WATER * 10
    return np.where(path > 0.5, path, 0)


@pytest.mark.parametrize("view", VIEWS)
def test_box(view: View) -> None:
    geometry = Geometry(view=view, detector_mm=200, pixels=128)
    volume = box((120, 100, 140), (50, 40, 60))
    source, direction = rays(geometry, middle(volume))
    half = np.array([50.0, 40, 60])
    chords = box_chords(source, direction, -half, half)
    through = ndimage.binary_erosion(np.abs(chords * np.abs(direction[1]) - 80) < 1e-6, iterations=6)
    assert through.sum() > 2000
    soft = areal_density(volume, geometry)[2] / WATER * 10
    assert np.abs(soft / np.where(through, chords, 1) - 1)[through].max() <= 1e-5


def test_ball() -> None:
    geometry = Geometry(view="AP", detector_mm=215, pixels=128)
    centre = np.array([20.0, -10, 15])
    volume = balls([(20.0, -10, 15)], 60, (180, 150, 170))
    source, direction = rays(geometry, middle(volume))
    chords = ball_chords(source, direction, centre, 60)
    path = water_path(volume, geometry)
    deep = chords > 60
    assert np.abs(path[deep] / chords[deep] - 1).max() <= 5e-3
    assert np.abs(np.subtract(centroid(path), centroid(chords))).max() <= 0.05


def test_box_turned_by_its_affine() -> None:
    straight = box((120, 100, 70), (50, 40, 25))
    angle = np.radians(20)
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    volume = Volume(straight.array, turn @ straight.affine, "turned box")
    assert not check_grid(volume)
    geometry = Geometry(view="AP", detector_mm=160, pixels=96)
    source, direction = rays(geometry, middle(volume))
    back = turn[:3, :3].T
    half = np.array([50.0, 40, 25])
    chords = box_chords(back @ source, np.einsum("ij,jhw->ihw", back, direction), -half, half)
    inside = ndimage.binary_erosion(chords > 60, iterations=6)
    assert inside.sum() > 400
    error = np.abs(water_path(volume, geometry) / np.where(inside, chords, 1) - 1)[inside]
    assert error.max() <= 2.6e-3
    assert error.mean() <= 3e-4


@pytest.mark.parametrize("view", VIEWS)
def test_turned_grids_are_projected_as_straight_ones(view: View) -> None:
    volume = small_body(40)
    geometry = small_geometry(view, 48)
    straight = _aligned(volume, geometry, middle(volume))
    turned = march(volume, geometry, middle(volume))
    beam = load_beam()
    pictures = [neglog(beam.intensity(areal / 10)) for areal in (straight, turned)]
    assert np.abs(pictures[0] - pictures[1]).max() * 255 <= 1


def test_slab_of_soft_tissue() -> None:
    volume = box((60, 100, 60), (30, 40, 30))
    beam = load_beam()
    centre = beam.intensity(areal_density(volume, Geometry(detector_mm=40, pixels=9)))[4, 4]
    # 20 voxels of air before and behind the slab
    paths = np.array([20 * 0.001 / 10, 0, 80 * WATER / 10])
    wanted = (beam.energies * beam.share * np.exp(-beam.attenuation @ paths)).sum()
    assert centre == pytest.approx(wanted, rel=1e-5)
    assert wanted == pytest.approx(7.488, rel=0.02)  # DeepDRR's 90 kV spectrum


@pytest.mark.parametrize(
    ("spectrum", "soft", "with_bone", "tolerance"),
    [
        ("60KV_AL35", (1.4831, 2.8495, 5.4259, 7.8923), (6.2337, 6.9909, 7.7142), 7e-3),
        ("90KV_AL40", (1.1960, 2.3291, 4.5022, 6.6055), (5.0242, 5.5191, 5.9952), 3.1e-3),
        ("120KV_AL43", (1.0843, 2.1253, 4.1351, 6.0837), (4.5609, 4.9667, 5.3579), 3.1e-3),
    ],
)
def test_spectra_harden_as_deepdrr_s_do(
    spectrum: str, soft: tuple[float, ...], with_bone: tuple[float, ...], tolerance: float
) -> None:
    beam = load_beam(spectrum)
    centimetres = np.array([(5, 0), (10, 0), (20, 0), (30, 0), (20, 1), (20, 2), (20, 3)], dtype=np.float32)
    bone = materials(np.array([1000]))[0][0]
    areal = np.stack([np.zeros(7), centimetres[:, 1] * bone, centimetres[:, 0] * WATER])[:, None]
    logs = attenuation(beam.intensity(areal.astype(np.float32)), beam.mean_kev)[0]
    assert logs == pytest.approx([*soft, *with_bone], rel=8e-3)
    assert logs[2:] == pytest.approx([*soft[2:], *with_bone], rel=tolerance)  # a trunk or more


def test_attenuation_is_that_of_nist() -> None:
    assert spectra() == ["120KV_AL43", "60KV_AL35", "90KV_AL40"]
    beam = load_beam()
    assert beam.share.sum() == pytest.approx(1)
    at = {40: (0.2485, 0.6655, 0.2688), 60: (0.1875, 0.3148, 0.2048), 80: (0.1662, 0.2229, 0.1823)}
    for kev, wanted in at.items():
        found = [np.exp(np.interp(np.log(kev), np.log(beam.energies), np.log(c))) for c in beam.attenuation.T]
        assert found == pytest.approx(wanted, rel=2e-3)
    nodes, column = np.array([10.0, 100.0]), np.array([[4.0], [1.0]])
    assert interpolate(np.array([10**1.5]), nodes, column)[0, 0] == pytest.approx(2.0)


def test_density_and_materials() -> None:
    density, bone, air = materials(np.array([-2000, -1000, -800, -799, 0, 350, 351, 1000, 5000]))
    assert density[[1, 4, 7]] == pytest.approx([0.001, 1.03, 1.6186], abs=1e-6)
    assert density[0] == 0
    assert density[8] == density.max() == pytest.approx(0.0005886 * 3071 + 1.03)
    assert bone.tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    assert air.tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("view", VIEWS)
def test_shift_and_direction_of_markers(view: View) -> None:
    geometry = Geometry(view=view, detector_mm=320, pixels=160)
    places = [(0.0, 10.0, 0.0), (-16.0, 10.0, 0.0), (0.0, 10.0, 60.0)]  # middle, to patient left, up
    source, direction = rays(geometry, np.zeros(3))
    found = [centroid(water_path(balls([place], 20, (120, 60, 180)), geometry)) for place in places]
    for place, shown in zip(places, found, strict=True):
        # The shadow of a ball lies a little further out than that of its middle.
        assert shown == pytest.approx(centroid(ball_chords(source, direction, np.array(place), 20)), abs=0.02)
        assert shown == pytest.approx(geometry.pixel_of(np.array(place), np.zeros(3)), abs=0.1)
    assert found[1][0] > geometry.pixels / 2  # patient left is on the right of the picture
    assert found[2][1] < geometry.pixels / 2  # the head is on top


@pytest.mark.parametrize("view", VIEWS)
def test_asymmetric_body(view: View) -> None:
    """The ball of bone at the upper left of the patient is at the upper right of the picture; the lung is at left."""
    geometry = small_geometry(view)
    body = small_body(48)
    bone = areal_density(body, geometry)[1]
    without = Volume(np.where(body.array == 900, 40, body.array), body.affine, "without ball")
    column, row = centroid(bone - areal_density(without, geometry)[1])
    assert column > geometry.pixels / 2 + 5
    assert row < geometry.pixels / 2 - 5
    beam = load_beam()
    levels = picture(beam.intensity(areal_density(body, geometry)), beam.mean_kev, "body")
    middle_row = levels[geometry.pixels // 2].astype(int)
    assert middle_row[geometry.pixels // 3] < middle_row[-geometry.pixels // 3] - 10


@pytest.mark.parametrize(("view", "wanted"), [("AP", 1700 / 1500), ("PA", 1500 / 1700)])
def test_magnification(view: View, wanted: float) -> None:
    """Pairs of balls 100 mm behind and before the middle: this tells AP from PA, which markers cannot."""
    geometry = Geometry(view=view, detector_mm=180, pixels=160)
    spread = []
    for depth in (100.0, -100.0):
        columns = [
            centroid(water_path(balls([(side, depth, 0.0)], 13, (90, 230, 28)), geometry))[0] for side in (-30.0, 30.0)
        ]
        spread.append(columns[0] - columns[1])
    assert spread[0] / spread[1] == pytest.approx(wanted, abs=0.002)


def marched(volume: Volume, geometry: Geometry, step_mm: float) -> np.ndarray:
    """Areal densities by small steps along each ray of the camera matrices: the plain way, sharing no code."""
    array = np.pad(volume.array.astype(float), 2, constant_values=-1000)
    density = np.maximum(np.minimum(0.001029 * array, 0.0005886 * array) + 1.03, 0)
    bone, air = (array > 350).astype(float), (array <= -800).astype(float)
    source, direction = rays(geometry, middle(volume))
    inverse = np.linalg.inv(volume.affine)
    start = inverse[:3, :3] @ source + inverse[:3, 3] + 2
    heading = np.einsum("ij,jhw->ihw", inverse[:3, :3], direction)
    summed = np.zeros((3, *direction.shape[1:]))
    reach = np.linalg.norm(np.array(array.shape) * volume.spacing) / 2
    away = np.linalg.norm(middle(volume) - source)
    last = np.array(array.shape)[:, None, None] - 0.5
    for distance in np.arange(away - reach, away + reach, step_mm) + step_mm / 2:
        position = start[:, None, None] + heading * distance
        inside = ((position >= -0.5) & (position <= last)).all(axis=0)
        values = [
            ndimage.map_coordinates(part, position[:, inside], order=1, mode="nearest") for part in (density, bone, air)
        ]
        summed[0, inside] += values[0] * values[2]
        summed[1, inside] += values[0] * values[1]
        summed[2, inside] += values[0] * (1 - values[1] - values[2])
    return (summed * step_mm / 10).astype(np.float32)


@pytest.mark.parametrize("view", VIEWS)
def test_agrees_with_a_plain_ray_march(view: View) -> None:
    volume, geometry = small_body(64), small_geometry(view, 48)
    beam = load_beam()
    ours, plain = beam.intensity(areal_density(volume, geometry)), beam.intensity(marched(volume, geometry, 0.5))
    agreement = compare(view, neglog(ours), neglog(plain), ours, plain)
    assert agreement.max_levels <= 1
    assert agreement.mean_levels <= 0.1
    assert agreement.correlation > 0.99999
    assert agreement.within()


def test_every_storage_order_gives_the_same_picture(tmp_path: Path) -> None:
    volume = small_body(24)
    array = volume.array[:20, :, :22]
    geometry = small_geometry("PA", 32)
    reference = None
    orders = [(order, flips) for order in permutations(range(3)) for flips in product((1, -1), repeat=3)]
    assert len(orders) == 48
    for order, flips in orders:
        turn = nibabel.orientations.ornt_transform(
            np.array([[0, 1], [1, 1], [2, 1]]), np.array(list(zip(order, flips, strict=True)))
        )
        image = nibabel.Nifti1Image(array, volume.affine).as_reoriented(turn)
        nibabel.save(image, tmp_path / "ct.nii")
        areal = areal_density(read_nifti(tmp_path / "ct.nii"), geometry)
        reference = areal if reference is None else reference
        assert np.abs(areal - reference).max() <= 1e-6 * reference.max(), (order, flips)


def test_body_that_is_not_a_multiple_of_anything_and_wider_than_the_detector() -> None:
    narrow = Geometry(detector_mm=40, pixels=33)
    areal = areal_density(small_body(), narrow)
    assert areal.shape == (3, 33, 33)
    assert (areal[2] > 0).all()
    wide = areal_density(small_body(), Geometry(detector_mm=2000, pixels=33))
    assert (wide[:, 0] == 0).all()
    assert wide[2, 16, 16] > 0


def ct(hu: np.ndarray, affine: np.ndarray | None = None) -> Volume:
    return Volume(hu, np.eye(4) if affine is None else affine, "case_7.nii.gz")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda hu: hu + 1024, "not in HU: .*look like air"),  # the stored values, never rescaled
        (lambda hu: hu - 1024, "not in HU: .*look like"),  # rescaled twice
        (lambda hu: (hu + 1024) / 4095, "not in HU: .*look like air"),
        (lambda hu: np.full_like(hu, -1000), r"holds the one value -1000 everywhere\. Give a CT of a body"),
        (lambda hu: np.full_like(hu, 40), "holds the one value 40 everywhere"),
        (lambda hu: np.where(hu == 900, -990, -1000), r"shows air alone: 100\.0% of its voxels lie between -1100"),
        (lambda hu: np.where(hu == 900, np.nan, hu.astype(np.float32)), "not numbers"),
        (lambda hu: np.where(hu == 900, np.inf, hu.astype(np.float32)), "not numbers"),
        (lambda hu: hu[:, :, 0], "has the shape"),
        (lambda hu: hu[..., None], "has the shape"),
        (lambda hu: hu[:0], "has the shape"),
    ],
)
def test_what_is_no_ct_is_refused_by_name(change: object, fault: str) -> None:
    with pytest.raises(MedhebError, match=rf"case_7\.nii\.gz.*{fault}"):
        check_hu(ct(change(small_body().array)))  # type: ignore[operator]


def test_sheared_grid_is_refused_and_a_rounded_one_is_straight() -> None:
    tilted = np.eye(4)
    tilted[1, 2] = np.tan(np.radians(5))
    with pytest.raises(MedhebError, match=r"case_7\.nii\.gz: has a sheared grid.*85\.0 degrees"):
        check_grid(ct(small_body().array, tilted))
    rounded = np.eye(4)
    rounded[0, 1], rounded[1, 0] = 1e-5, -1e-5
    assert check_grid(ct(small_body().array, rounded))


def test_tube_inside_the_patient_is_refused() -> None:
    with pytest.raises(MedhebError, match="reaches the X-ray tube"):
        areal_density(small_body(), Geometry(source_to_centre_mm=50))


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"view": "LAT"}, "unknown view 'LAT'"),
        ({"source_to_centre_mm": 1900}, "puts the patient at 1900 mm"),
        ({"detector_mm": 0}, "a detector of 0 mm"),
        ({"source_to_detector_mm": float("nan")}, "at nan mm"),
        ({"pixels": 100_000}, "asks for 100000 pixels"),
    ],
)
def test_impossible_geometry(settings: dict[str, object], fault: str) -> None:
    with pytest.raises(MedhebError, match=fault):
        Geometry(**settings)  # type: ignore[arg-type]


def test_neglog_of_a_constant_signal_and_of_two_levels() -> None:
    assert neglog(np.full((3, 3), 7, dtype=np.float32)).max() == 0
    two = neglog(np.array([[1, 40]], dtype=np.float32))
    assert two.tolist() == [[1, 0]]


def test_windowing_ignores_the_air_around_the_body() -> None:
    beam = Beam("one", np.array([50.0]), np.array([1.0]), np.ones((1, 3)))
    signal = 50 * np.exp(-np.linspace(1, 3, 101, dtype=np.float32))[None]
    levels = picture(signal, beam.mean_kev, "body")
    assert (levels[0, 0], levels[0, -1], levels[0, 50] // 2) == (0, 255, 63)
    framed = np.concatenate([np.full((50, 101), 50, dtype=np.float32), signal])
    assert np.array_equal(picture(framed, beam.mean_kev, "body")[-1], levels[0])
    assert picture(framed[:50], beam.mean_kev, "body").max() == 0
