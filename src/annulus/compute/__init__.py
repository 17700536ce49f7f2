"""Devices, processes, random draws and workers."""
