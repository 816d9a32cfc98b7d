"""The options of a translator's search and engine: their flags, their check, and what they mean to a Translator."""

from importlib.util import find_spec

from keras_attention.support.errors import UserError
from keras_attention.support.installation import install_command

SEARCH = ("beam", "length_penalty", "coverage_penalty", "max_length")
COMPUTE_TYPES = ("float32", "int8")  # of CTranslate2


def add_search_options(command):
    command.add_argument("--beam", type=int, metavar="K", help="beam size; default: from the model, mostly 5")
    command.add_argument(
        "--length-penalty", type=float, metavar="X", help="0 or more; larger prefers longer translations"
    )
    command.add_argument(
        "--coverage-penalty", type=float, metavar="X", help="0 or more; larger avoids untranslated source words"
    )
    command.add_argument("--max-length", type=int, metavar="N", help="maximum number of tokens of a translation")


def add_engine(command):
    help_text = "what computes translations; ctranslate2 is faster and runs Transformers only (default: keras)"
    command.add_argument("--engine", choices=("keras", "ctranslate2"), default="keras", help=help_text)
    help_text = "with --engine ctranslate2: precision of the weights (default: float32)"
    command.add_argument("--compute-type", choices=COMPUTE_TYPES, help=help_text)


def check_engine(arguments):
    """Raises UserError if the package of the chosen engine is missing, or an option needs another engine."""
    if arguments.engine == "keras":
        if arguments.compute_type:
            raise UserError("--compute-type needs --engine ctranslate2.")
    elif find_spec(arguments.engine) is None:
        raise UserError(f"--engine {arguments.engine} needs a package: {install_command('ctranslate2')}")


def with_engine(translator, arguments):
    """The translator, set to the engine that was chosen on the command line."""
    if arguments.engine != "keras":
        translator.use_engine(arguments.engine, compute_type=arguments.compute_type)
    return translator


def search_flags(arguments, names=SEARCH):
    """Dict from each flag of the search to whether it was given on the command line."""
    return {f"--{name.replace('_', '-')}": getattr(arguments, name) is not None for name in names}


def search_options(arguments):
    """The search options given on the command line."""
    return {
        "beam_size": arguments.beam,
        "length_penalty": arguments.length_penalty,
        "coverage_penalty": arguments.coverage_penalty,
        "max_length": arguments.max_length,
    }
