"""Proteins for masked language models: FASTA files, or simple rules -> parts without similar proteins in common."""
