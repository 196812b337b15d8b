"""What voice needs beside Ekiden: NumPy for samples, `websockets` for live transcription."""

try:
    import numpy as np
    import numpy.typing as npt
    import websockets
except ImportError as exc:
    raise ImportError("voice needs NumPy and websockets: pip install 'ekiden[voice]'") from exc

__all__ = ["np", "npt", "websockets"]
