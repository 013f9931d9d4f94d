"""Runs one scenario: `scenario.py MODULE FUNCTION`."""

import importlib
import sys

from azure_under_test import Azure

module, function = sys.argv[1:]
getattr(importlib.import_module(module), function)(Azure())
