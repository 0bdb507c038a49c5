"""What the repetitions of papers share: on what and from which sources was measured, how figures look, how pages are
filled.

Owns nothing of one paper. A script one folder down finds it by putting this folder's parent into `sys.path`.
"""
