"""The Star Schema Benchmark: its queries, and engines that are asked them beside each other.

A script one folder down finds it by putting this folder's parent into `sys.path`.
"""
