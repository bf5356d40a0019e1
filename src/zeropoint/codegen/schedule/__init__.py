"""From kernels on memrefs to steps: a frozen kernel dataclass each, its packed parameters, its arguments."""
