"""Files, processes, devices and memory of the machine that ndformer runs on."""
