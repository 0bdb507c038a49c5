"""The thirteen queries: the specification's in round 0, others of the same kind and the same for everybody in every
other."""

import re

from ssb import queries


def literals(query):
    """The constants of a query, and it without them."""
    pattern = r"'[^']*'|\b\d+\b"
    return re.findall(pattern, query), re.sub(pattern, "?", query)


def test_round_0_has_the_constants_of_the_specification():
    found = {name: " ".join(literals(query)[0]) for name, query in queries.queries(0).items()}
    towns = "'UNITED KI1' 'UNITED KI5' 'UNITED KI1' 'UNITED KI5'"
    assert found == {
        "1.1": "1993 1 3 25",
        "1.2": "199401 4 6 26 35",
        "1.3": "6 1994 5 7 26 35",
        "2.1": "'MFGR#12' 'AMERICA'",
        "2.2": "'MFGR#2221' 'MFGR#2228' 'ASIA'",
        "2.3": "'MFGR#2221' 'EUROPE'",
        "3.1": "'ASIA' 'ASIA' 1992 1997",
        "3.2": "'UNITED STATES' 'UNITED STATES' 1992 1997",
        "3.3": f"{towns} 1992 1997",
        "3.4": f"{towns} 'Dec1997'",
        "4.1": "'AMERICA' 'AMERICA' 'MFGR#1' 'MFGR#2'",
        "4.2": "'AMERICA' 'AMERICA' 1997 1998 'MFGR#1' 'MFGR#2'",
        "4.3": "'AMERICA' 'UNITED STATES' 1997 1998 'MFGR#14'",
    }


def test_every_round_asks_the_same_queries_with_constants_of_its_own():
    standard = queries.queries(0)
    assert list(standard) == queries.NAMES
    seen = set()
    for number in range(1, 200):
        drawn = queries.queries(number)
        assert drawn == queries.queries(number)
        for name in queries.NAMES:
            assert literals(drawn[name])[1] == literals(standard[name])[1], f"round {number}, {name}"
        seen.add(" ".join(drawn.values()))
    assert len(seen) == 199


def test_every_drawn_constant_is_one_that_the_tables_have():
    cities = {f"{nation:9.9}{digit}" for nation in queries.NATIONS for digit in range(10)}
    months = {f"{month}{year}" for month in queries.MONTHS for year in range(1992, 1998)}
    brands = {f"MFGR#{maker}{category}{brand}" for maker in range(1, 6) for category in range(1, 6) for brand in range(1, 41)}
    categories = {brand[:7] for brand in brands}
    makers = {brand[:6] for brand in brands}
    known = cities | months | brands | categories | makers | set(queries.NATIONS) | set(queries.REGIONS)
    assert (len(cities), len(brands)) == (250, 1000)
    for number in range(200):
        for name, query in queries.queries(number).items():
            texts = [text.strip("'") for text in literals(query)[0] if text.startswith("'")]
            assert set(texts) <= known, f"round {number}, {name}: {texts}"
            for low, high in re.findall(r"lo_quantity BETWEEN (\d+) AND (\d+)", query):
                assert 1 <= int(low) and int(high) == int(low) + 9 <= 50
            for low, high in re.findall(r"lo_discount BETWEEN (\d+) AND (\d+)", query):
                assert 0 <= int(low) and int(high) == int(low) + 2 <= 10
            for low, high in re.findall(r"p_brand1 BETWEEN '(\S+)' AND '(\S+)'", query):
                assert sum(low <= brand <= high for brand in brands) == 8
            for low, high in re.findall(r"d_year >= (\d+) AND d_year <= (\d+)", query):
                assert 1992 <= int(low) and int(high) == int(low) + 5 <= 1998, "six years, as in the specification"
            for left, right in re.findall(r"\(\w+ = (\S+|'[^']*') OR \w+ = (\S+|'[^']*')\)", query):
                assert left != right
