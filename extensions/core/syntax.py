"""The syntax of pages: what MyST reads besides CommonMark and directives.

Imports nothing, so that conf.py can be read before anything is installed.
"""

EXTENSIONS = {"attrs_inline", "colon_fence"}  # of MyST
