"""The type stubs and the examples say what is there."""

import ast
import doctest
import inspect
import pathlib

import pyarrow
import pytest

import thermocline

STUB = pathlib.Path(thermocline.__file__).with_name("_thermocline.pyi")


def parameters(arguments):
    """Names and defaults, without the object itself."""
    names = [argument.arg for argument in arguments.args if argument.arg not in ("self", "cls")]
    defaults = [ast.literal_eval(default) for default in arguments.defaults]
    return list(zip(names, [inspect.Parameter.empty] * (len(names) - len(defaults)) + defaults))


def functions(body):
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def test_the_package_is_marked_as_typed():
    assert STUB.with_name("py.typed").exists()


@pytest.mark.parametrize("name", ["Connection", "Result"])
def test_stub_and_class_have_the_same_members(name):
    tree = ast.parse(STUB.read_text())
    [stub] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    described, actual = functions(stub.body), getattr(thermocline, name)
    public = {member for member in vars(actual) if not member.startswith("_")}
    assert {member for member in described if not member.startswith("_")} == public
    for member, node in described.items():
        if any(isinstance(decorator, ast.Name) and decorator.id == "property" for decorator in node.decorator_list):
            assert not callable(getattr(actual, member))
        elif not member.startswith("__") or member == "__arrow_c_stream__":
            signature = inspect.signature(getattr(actual, member))
            found = [(p.name, p.default) for p in signature.parameters.values() if p.name != "self"]
            assert found == parameters(node.args), member


def test_who_asks_a_query_needs_no_check_for_none():
    """`Result | None` has type checkers refuse `db.sql(query).df()`, which the documentation shows."""
    [stub] = [node for node in ast.parse(STUB.read_text()).body if getattr(node, "name", None) == "Connection"]
    returned = {name: ast.unparse(node.returns) for name, node in functions(stub.body).items()}
    assert returned["sql"] == returned["execute"] == "Result | _MaybeNone"


def test_stub_and_connect_have_the_same_parameters():
    [stub] = [node for name, node in functions(ast.parse(STUB.read_text()).body).items() if name == "connect"]
    found = [(p.name, p.default) for p in inspect.signature(thermocline.connect).parameters.values()]
    assert found == parameters(stub.args)


def test_everything_public_is_documented():
    for name in thermocline.__all__:
        thing = getattr(thermocline, name)
        assert name == "__version__" or thing.__doc__
    for thing in [thermocline.Connection, thermocline.Result]:
        for name, member in vars(thing).items():
            assert name.startswith("_") or member.__doc__, name


def documented():
    yield "connect", thermocline.connect
    for thing in [thermocline.Connection, thermocline.Result]:
        for name, member in vars(thing).items():
            if ">>>" in (member.__doc__ or ""):
                yield f"{thing.__name__}.{name}", member


@pytest.mark.parametrize("thing", [thing for _, thing in documented()], ids=[name for name, _ in documented()])
def test_the_examples_run(db, thing):
    names = {"db": db, "thermocline": thermocline, "pyarrow": pyarrow}
    db.register("people", pyarrow.table({"name": ["Ada", "Bo"], "age": [36, 41]}))
    examples = doctest.DocTestParser().get_doctest(inspect.getdoc(thing), names, "example", None, 0)
    assert examples.examples
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples)
    assert outcome.failed == 0
