"""What a user demands of a translation: its beginning, its terms, and another word at a place."""
