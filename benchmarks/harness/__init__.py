"""All benchmarks in one run: what they found, how it grows, what falls short of its goal, and the page of it.

    python -m benchmarks.harness run [NAME...]    `make bench`: measure, and write docs/performance.* anew after each
    python -m benchmarks.harness check            `make bench-check`: what falls short, of what was measured last
    python -m benchmarks.harness page             the page and its plots anew, from what was measured last

goals.toml    which programs there are, and what each figure is to be
measures.py   what is made of samples: middle, worst of a hundred, ratio to the floor, exponent of a curve
runs.py       the programs, one after the other, and the machine that they ran on
plots.py      a curve as SVG
page.py       docs/performance.md
"""
