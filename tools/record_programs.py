"""Record what the programs give that need the libraries of ``pretrained``.

``python -m tools.record_programs`` runs each of them where these libraries are
installed, and then names the tests of their claims.
"""

from packaging.requirements import Requirement
from sphinx_gallery.gen_gallery import _fill_gallery_conf_defaults

from conf import sphinx_gallery_conf
from extensions.core.files import in_one_line, text_of, toml_of
from extensions.core.topics import ROOT, topics
from extensions.programs.recorded import keep
from extensions.programs.snippet import libraries
from extensions.programs.sphinx_run import run

_SECONDS = 300  # for each


def main() -> None:
    """Run the programs, keep what they gave, print where their tests are."""
    groups = toml_of(ROOT / "pyproject.toml")["dependency-groups"]
    needed = {Requirement(each).name for each in groups["pretrained"]}
    needed.remove("torch")
    conf = _fill_gallery_conf_defaults(sphinx_gallery_conf)
    conf["src_dir"] = str(ROOT / "docs")
    for topic in topics(ROOT):
        if needed & {*libraries(text_of(topic.snippet))}:
            for problem in run(topic, conf, _SECONDS):
                raise problem
            keep(topic)
            print(topic.tests.relative_to(ROOT).as_posix())


if __name__ == "__main__":
    in_one_line(main)
