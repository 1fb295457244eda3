"""Routes and bodies of every listener: nodes', operators', probes."""
