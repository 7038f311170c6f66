"""Ranked lists of several runs made into one."""
