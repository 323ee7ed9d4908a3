"""Training of MedEmb, the reference model, on the rebuilt training rows."""
