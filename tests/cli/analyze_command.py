"""`hardneg analyze`, called."""

import json

import command_line


def call(*words):
    return command_line.call("analyze", *words)


def printed(*words):
    return json.loads(command_line.hardneg("analyze", *words, "--json").stdout)
