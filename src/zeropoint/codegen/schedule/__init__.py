"""Converts kernels on memrefs to steps. A step has a kernel dataclass, packed parameters, and views as arguments."""
