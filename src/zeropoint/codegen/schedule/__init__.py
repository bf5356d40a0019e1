"""Converts kernels on memrefs to steps. A step has a kernel dataclass, packed parameters and the views it works on."""
