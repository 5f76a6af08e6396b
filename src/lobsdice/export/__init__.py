"""Policies as files that need no lobsdice; docs/deploy.md shows their use.

A file is written only after it has acted like the policy on given observations.
"""

from lobsdice.export.agreement import AGREEMENT, likely_observations
from lobsdice.export.numpy_file import export_numpy
from lobsdice.export.onnx_file import export_onnx

__all__ = ["AGREEMENT", "export_numpy", "export_onnx", "likely_observations"]
