"""Plug-in that lets pydicom decode JPEG-LS, lossless JPEG and 12 bit JPEG with imagecodecs.

pydicom's own plug-ins for these need libraries whose licence (GPL) does not fit this project, or GDCM.
"""

from __future__ import annotations

import numpy as np
from pydicom import uid
from pydicom.pixels import get_decoder
from pydicom.pixels.decoders.base import DecodeRunner

NAME = "imagecodecs"
LOSSLESS_JPEG = (uid.JPEGLossless, uid.JPEGLosslessSV1)
SYNTAXES = (*LOSSLESS_JPEG, *uid.JPEGLSTransferSyntaxes, uid.JPEGExtended12Bit)


def is_available(_: str) -> bool:
    """Asked by pydicom; imagecodecs is a fixed requirement."""
    return True


def decode_frame(stream: bytes, runner: DecodeRunner) -> bytearray:
    """Called by pydicom: one frame as raw samples in the byte order of this machine.

    Streams without an end must not come here: the 12 bit decoder fills what is missing, and that of JPEG-LS thinks
    about it for seconds.

    Raises:
        ValueError: the stream has another size than the header, or colours that this path cannot sort out.
        RuntimeError: from imagecodecs, for a damaged stream.
    """
    import imagecodecs  # 0.3 s, so only where it is needed

    if runner.transfer_syntax in LOSSLESS_JPEG:
        frame = imagecodecs.jpegsof3_decode(stream)
    elif runner.transfer_syntax == uid.JPEGExtended12Bit:
        if runner.samples_per_pixel != 1:
            raise ValueError("only grey pictures are read")
        frame = imagecodecs.jpeg8_decode(stream)
    else:
        frame = imagecodecs.jpegls_decode(stream)
    if frame.shape[:2] != (runner.rows, runner.columns) or frame.size != runner.frame_length(unit="pixels"):
        raise ValueError(f"the stream holds {frame.shape}, not what the header says")
    runner.set_option("bits_allocated", 8 * frame.dtype.itemsize)
    if frame.ndim == 3:
        runner.set_option("planar_configuration", 0)
    return bytearray(np.ascontiguousarray(frame).tobytes())


def register(syntax: uid.UID) -> None:
    """Make the plug-in known to pydicom for one of ``SYNTAXES``; again has no effect."""
    decoder = get_decoder(syntax)
    if NAME not in decoder.available_plugins:
        decoder.add_plugin(NAME, (__name__, "decode_frame"))
