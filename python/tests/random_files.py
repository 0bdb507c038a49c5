"""Random tables as NDJSON and CSV files, and random questions about them. Everything follows from the seed."""

import csv
import json
import random

WORDS = ["ant", "Bee", "cat, big", 'dog "x"', "eel's", "fünf", "日本", "", "new\tline", "ox"]
CITIES = ["Bern", "Łódź", "Rio", "Ube", None]

NDJSON_COLUMNS = (
    "{'id': 'BIGINT', 'k': 'BIGINT', 'price': 'DOUBLE', 'name': 'VARCHAR', 'flag': 'BOOLEAN', "
    "'who': 'STRUCT(age BIGINT, city VARCHAR)', 'tags': 'VARCHAR[]', "
    "'items': 'STRUCT(sku VARCHAR, qty BIGINT, cost DOUBLE)[]'}"
)


def some_or_none(rng, value, chance=0.1):
    return None if rng.random() < chance else value


def record(rng, row):
    """One record; a column without a value is NULL or absent."""
    items = [
        {"sku": rng.choice("abcdef"), "qty": some_or_none(rng, rng.randint(1, 9)), "cost": rng.randint(0, 400) / 4}
        for _ in range(rng.randint(0, 4))
    ]
    record = {
        "id": row,
        "k": some_or_none(rng, rng.randint(-20, 20)),
        "price": some_or_none(rng, rng.randint(-4_000, 40_000) / 8 + 0.125),
        "name": some_or_none(rng, rng.choice(WORDS)),
        "flag": some_or_none(rng, rng.random() < 0.5),
        "who": some_or_none(rng, {"age": some_or_none(rng, rng.randint(0, 99)), "city": rng.choice(CITIES)}),
        "tags": some_or_none(rng, [rng.choice(WORDS) for _ in range(rng.randint(0, 3))]),
        "items": some_or_none(rng, items),
    }
    return {key: value for key, value in record.items() if value is not None or rng.random() < 0.5}


def write_ndjson(path, seed, row_count):
    rng = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        for row in range(row_count):
            # Names may come in any order, text may be escaped.
            fields = list(record(rng, row).items())
            rng.shuffle(fields)
            line = json.dumps(dict(fields), ensure_ascii=rng.random() < 0.5, separators=rng.choice([(",", ":"), (", ", ": ")]))
            file.write(line + "\n")


def write_csv(path, seed, row_count):
    """Columns id, k, price, name, flag; NULL is the empty field. Some names hold commas, quotes and line breaks."""
    rng = random.Random(seed)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator=rng.choice(["\n", "\r\n"]))
        writer.writerow(["id", "k", "price", "name", "flag"])
        for row in range(row_count):
            values = record(rng, row)
            name = values.get("name") or None
            if name and rng.random() < 0.05:
                name += "\nsecond line"
            flag = values.get("flag")
            writer.writerow(
                [row, values.get("k"), values.get("price"), name, None if flag is None else str(flag).lower()]
            )


def comparison(rng, row_count):
    """One condition on a column that both formats have."""
    low = rng.randint(0, row_count)
    high = low + rng.randint(0, row_count)
    k = rng.randint(-20, 20)
    price = rng.randint(-500, 5_000)
    name = rng.choice(WORDS).replace("'", "''")
    return rng.choice([
        f"id BETWEEN {low} AND {high}",
        f"id < {high}",
        f"id >= {low}",
        f"k = {k}",
        f"k <> {k}",
        f"k IN ({k}, {k + 1}, {k + 5})",
        f"k NOT IN ({k}, {k - 3})",
        f"k > {k - 5} AND k <= {k + 5}",
        f"price >= {price}",
        f"price BETWEEN {price} AND {price + 800}.5",
        f"NOT (price < {price})",
        "price IS NULL",
        "name IS NOT NULL",
        f"name = '{name}'",
        f"name >= '{name}'",
        "name LIKE '%e%'",
        "flag",
        "NOT flag",
        "flag IS NULL",
    ])


def condition(rng, row_count):
    """A condition of one to three comparisons; two lists of one column now and then meet in it."""
    parts = [comparison(rng, row_count) for _ in range(rng.choice([1, 1, 2, 2, 3]))]
    if rng.random() < 0.2:
        k = rng.randint(-20, 20)
        parts = [f"k {rng.choice(['IN', 'NOT IN'])} ({k + shift}, {k + shift + 1}, {k + 4})" for shift in (0, 2)]
    text = parts[0]
    for part in parts[1:]:
        text = f"({text}) {rng.choice(['AND', 'AND', 'AND', 'OR'])} ({part})"
    return text if rng.random() < 0.8 else f"NOT ({text})"


FLAT_QUERIES = [
    "SELECT count(*), count(k), sum(k), min(price), max(name) FROM {t} WHERE {where}",
    "SELECT sum(price), avg(k) FROM {t} WHERE {where}",
    "SELECT id, k, price, name, flag FROM {t} WHERE {where}",
    "SELECT k, count(*), sum(price) FROM {t} WHERE {where} GROUP BY k",
    "SELECT flag, name, max(id) FROM {t} WHERE {where} GROUP BY flag, name HAVING count(*) > 1",
    "SELECT id FROM {t} WHERE {where} ORDER BY id LIMIT 7",
    "SELECT a.id, b.k FROM {t} a JOIN {t} b ON a.id = b.id + 1 WHERE a.id < 300 AND b.k > 0",
]

NESTED_QUERIES = [
    "SELECT who['city'], count(*), sum(who['age']) FROM {t} WHERE {where} GROUP BY 1",
    "SELECT id, who, tags, items FROM {t} WHERE {where}",
    "SELECT i['sku'], count(*), sum(i['qty']), sum(i['cost']) FROM (SELECT unnest(items) AS i FROM {t} WHERE {where}) x GROUP BY 1",
    "SELECT count(*), sum(i['cost']) FROM (SELECT id, k, price, name, flag, unnest(items) AS i FROM {t}) x "
    "WHERE i['qty'] >= 3 AND i['qty'] < 8 AND ({where})",
    "SELECT id, tag FROM (SELECT id, unnest(tags) AS tag FROM {t} WHERE {where}) x WHERE tag <> 'ox'",
    "SELECT o.id, i.i['sku'] FROM {t} o, UNNEST(o.items) AS i(i) WHERE o.id < 500 AND i.i['cost'] > 20",
    "SELECT count(*) FROM {t} WHERE who['age'] BETWEEN 20 AND 60 AND ({where})",
]


def queries(seed, row_count, templates, count):
    """Questions with the table as `{t}`. Each is followed now and then by a narrower one."""
    rng = random.Random(seed)
    asked = []
    for _ in range(count):
        template, where = rng.choice(templates), condition(rng, row_count)
        asked.append(template.replace("{where}", where))
        if rng.random() < 0.5:
            narrower = f"({where}) AND ({comparison(rng, row_count)})"
            asked.append(template.replace("{where}", narrower))
    return asked
