"""Given names, perhaps with a surname, which translations keep. Models of everyday sentences often change them."""

import re
from functools import cache

from keras_attention.pipelines.search.calendar_words import CALENDAR_WORDS

LANGUAGES = ("de", "en", "fr")
# Frequent names that are spelt alike in these languages and are none of their words.
_NAMES = """
Aaron Abigail Adam Adrian Adrien Agathe Agnes Ahmed Aisha Akira Alain Alan Alejandro Alessandro Alex Alexander
Alexandra Alexis Ali Alice Alicia Alina Amanda Amelia Amelie Amir Amy Ana Andrea Andreas Andrew Anette Angela Anita
Anja Anke Anna Annabelle Anne Annette Annika Anthony Antje Antoine Anton Antonia Antonio Arthur Ashley Axel Aylin
Barack Barbara Bastian Beatrice Ben Benedikt Benjamin Bernard Bernd Bettina Birgit Brandon Brenda Brian Brigitte Bruno
Bryan Camille Carina Carla Carlos Carmen Carolin Caroline Carolyn Catherine Cathy Charlotte Chloe Chris Christa
Christina Christine Christoph Christophe Christopher Cindy Clara Claudia Conrad Corinna Cornelia Craig Cynthia Damien
Daniel Daniela Danielle Darren David Deborah Denis Denise Dennis Derek Diana Diane Diego Dieter Dimitri Dirk Dominik
Dominique Donald Donna Dora Doris Dorothea Dorothy Douglas Dylan Eduardo Edward Eleanor Elena Eleonore Elias Elisa
Elisabeth Elizabeth Ella Ellen Elsa Emil Emilia Emilie Emily Emma Emmanuel Enrico Eric Erica Erik Erika Esra Esther
Ethan Eugen Eugene Eva Evelyn Fabian Fabio Fabrice Fatima Federico Felix Ferdinand Fernando Finn Fiona Florian
Francesca Francesco Francisco Franck Frank Franz Franziska Fred Freddie Frederic Frederik Friederike Friedrich Fritz
Gabriel Gabriela Gary Geoffrey George Gerald Gerd Gerhard Gilbert Gilles Gina Giulia Giuseppe Gregor Gregory Greta
Guido Guillaume Gustav Hanna Hannah Hannelore Hannes Hans Harald Harold Harriet Harry Hassan Heather Hector Heike
Heiko Heiner Heinz Helen Helena Helene Helga Helmut Hendrik Henri Herbert Hermann Hiroshi Holger Horst Hubert Hugo Ian
Igor Ines Inga Inge Ingo Ingrid Irene Irina Irma Isaac Isabel Isabella Isabelle Ivan Jacqueline Jake Jakob James Jamie
Jan Jana Jane Janet Janina Jasmin Jason Javier Jennifer Jenny Jens Jeremy Jerome Jerry Jessica Jill Jim Jimmy Joachim
Joanna Joe Joel Johanna John Johnny Jonas Jonathan Jorge Josef Joseph Josephine Joshua Juan Judith Judy Jules Julia
Julian Juliane Julie Julien Juliette Julius Justin Karen Karim Karin Karl Karla Karsten Katharina Katherine Kathleen
Kathrin Kathy Katie Katja Katrin Keith Kelly Ken Kenji Kerstin Kevin Kim Klara Klaus Konrad Konstantin Kristin
Kristina Kurt Kyle Lara Larry Lars Laura Lauren Laurent Lea Leila Lena Leo Leon Leonard Leonardo Leonie Leslie Liam
Lilian Lily Linda Lisa Lorenz Lothar Louise Luca Lucas Lucia Lucie Lucien Lucy Ludwig Luis Luisa Lukas Lynn Madeleine
Magda Magdalena Maike Malte Manfred Manuel Manuela Marc Marcel Marco Marcus Margaret Margarete Margarita Margot Maria
Marianne Marie Marina Mario Marion Marius Markus Marlene Marta Martha Martin Martina Marvin Mary Mathias Mathieu
Mathilde Matthew Matthias Maurice Maximilian Mehmet Melanie Melissa Mia Michael Michaela Michel Michelle Miguel Mike
Mila Miriam Mohammed Monica Monika Monique Moritz Mustafa Nadia Nadine Nadja Nancy Naomi Natalia Natalie Natascha
Nathalie Nathan Nathaniel Neil Nicholas Nicolas Nicole Niels Niklas Niko Nikolai Nils Nina Noah Nora Norbert Olaf Oleg
Olga Oliver Olivia Omar Oscar Oskar Otto Pablo Pamela Pascal Patricia Patrick Paul Paula Pauline Pedro Peggy Peter
Petra Phil Philip Philipp Philippe Phillip Pia Priya Rachel Rainer Ralf Ralph Raphael Raymond Rebecca Reinhard Renate
Ricardo Richard Rita Robert Roberta Roberto Robin Rodrigo Roger Roland Rolf Ronald Ronja Rosemarie Roxane Rudolf
Rupert Ryan Sabine Sabrina Samantha Samuel Sandra Sandrine Sara Sarah Saskia Scott Sean Sebastian Selina Serge Sergei
Sharon Sheila Shirley Sibylle Siegfried Silke Silvia Simon Simone Sonia Sonja Sophia Sophie Stefan Stefanie Steffen
Stephan Stephanie Stephen Steve Steven Susan Susanna Susanne Sven Svenja Svetlana Sylvia Sylvie Tamara Tania Tanja
Teresa Thea Theo Theodor Theresa Thierry Thomas Thorsten Tiffany Tim Timo Timothy Tina Tobias Todd Tom Tommy Tony
Torsten Tracy Ulrich Ulrike Ursula Uwe Valentina Valerie Vanessa Vera Verena Veronica Veronika Viktor Vincent Vivian
Volker Walter Waltraud Wendy Werner Wilhelm Wolfgang Xavier Yannick Yasmin Yuri Yusuf Yvette Yvonne Zachary Zoe
"""
GIVEN_NAMES = _NAMES.split()
EXCHANGED = {"Maria", "Marie", "Mary"}  # human translators of everyday sentences take one for the other
_ONE = "|".join(GIVEN_NAMES)
NAMES = rf"(?:Jean-)?(?:{_ONE})(?:-(?:{_ONE}))*"  # with hyphens as one, such as Jean-Paul and Anna-Lena
CAPITAL = "[A-ZÀ-ÖØ-ÞĆČĞİŁŘŚŞŠŹŻŽ]"
# A surname such as O'Neil or Smith-Jones, or an initial before it.
CAPITALIZED = rf"(?:{CAPITAL}['’])?{CAPITAL}(?:[^\W\d_]+|\.(?=\s{CAPITAL}))(?:[-'’]{CAPITAL}[^\W\d_]+)*"
_NO_SURNAMES = {"en": "|".join([*CALENDAR_WORDS["en"], "March", "May", "Christmas", "Easter"]), "fr": "Dieu|Noël"}


@cache
def given_name(language):
    """The pattern (str) of a given name, with the surname behind it; without groups.

    Rulers, such as Wilhelm II and Alexander the Great, have other names in other languages. In German, where all nouns
    have capitals, a surname is one only in two words that stand alone, or begin a sentence with a small word behind.

    Args:
        language: str, one of `LANGUAGES`.
    """
    surname = rf"(?:[A-Z]\.\s)?{CAPITALIZED}(?![^\W\d_]|\s[A-Z])"  # not "Richard Harris Award"
    if language == "de":
        both = rf"(?:(?<=,\s)|(?:\A\s*)(?<!\w))(?:{NAMES})\s{CAPITALIZED}(?=\s*[.,!?]?\s*\Z|\s[a-zäöü])"
    else:
        both = rf"(?<!\w)(?:{NAMES})\s(?!(?:{_NO_SURNAMES[language]}|[IVX]+)\b){surname}"
    return rf"{both}|(?<!\w)(?:{NAMES})(?!\w|\s+(?:[IVX]+|the|der|die|le|la)\b)"


def given_name_missing(source, answer, language):
    """Whether a given name of a source, in `language`, is not in its translation, or the surname behind it is not.

    The translation may have an "s" behind it, or small letters if it has no others.
    """
    flags = re.IGNORECASE if answer in (answer.lower(), answer.upper()) else 0
    names = {word for name in re.findall(given_name(language), source) for word in name.split()}
    return any(
        not re.search(
            rf"(?<!\w)(?:{'|'.join(EXCHANGED) if name in EXCHANGED else re.escape(name)})s?(?!\w)", answer, flags
        )
        for name in names
    )
