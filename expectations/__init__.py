"""Great Expectations suites, `<pipeline>/<flow>.json`. A package, so that they can be shipped in a zip."""
