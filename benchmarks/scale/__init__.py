"""How the platform grows: files, arrivals, history, pipelines and executors, by arithmetic and by small real lakes.

``python -m benchmarks.scale NAME`` measures and writes ``benchmarks/scale/results/NAME.json``; ``python -m benchmarks.scale page`` makes
``docs/scale.md`` of all results and the template beside this file.
"""
