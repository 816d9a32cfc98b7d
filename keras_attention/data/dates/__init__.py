"""Dates in many languages with their ISO form, generated from Babel's locale data."""
