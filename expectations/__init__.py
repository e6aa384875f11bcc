"""What must hold: Great Expectations suites, `<pipeline>/<flow>.json`. A package, so that a zip can carry them."""
