#!/usr/bin/env python3
"""Prints the thirteen queries of the Star Schema Benchmark, one a line.

    lab/ssb/queries.py [--round 0] > queries.sql

After P. O'Neil, E. O'Neil, X. Chen: Star Schema Benchmark, revision 3 (2009), section 3. Tables are named as
`lab generate ssb` names its files; tables are joined by conditions, as there. Round 0 has the specification's
constants. Every other round draws others of the same kind (another year, region, nation, category) from its number, so
that whole answers kept from one round serve no other. Orders are total, so that answers of two engines can be compared
row by row; for that, flight 3 also orders by its two places where revenues are equal.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

REGIONS = {
    "AFRICA": ["ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE"],
    "AMERICA": ["ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES"],
    "ASIA": ["CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"],
    "EUROPE": ["FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"],
    "MIDDLE EAST": ["EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA"],
}
NATIONS = [nation for nations in REGIONS.values() for nation in nations]
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
FULL_YEARS = (1992, 1997)
"""First and last year that has orders in every month; 1998 ends in August."""

NAMES = ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3", "3.1", "3.2", "3.3", "3.4", "4.1", "4.2", "4.3"]


class Constants:
    """The constants of one round, drawn in the order in which they are asked for."""

    def __init__(self, round_number: int) -> None:
        self.is_standard = round_number == 0
        self.draw = random.Random(round_number)

    def _one(self, standard: T, drawn: Callable[[], T]) -> T:
        return standard if self.is_standard else drawn()

    def region(self, standard: str) -> str:
        """A region."""
        return self._one(standard, lambda: self.draw.choice(list(REGIONS)))

    def nation(self, standard: str) -> str:
        """A nation."""
        return self._one(standard, lambda: self.draw.choice(NATIONS))

    def cities(self, column: str) -> str:
        """Two cities of a nation, as a condition. A city is the nation's first nine letters and a digit."""
        nation = self.nation("UNITED KINGDOM")[:9].ljust(9)
        first, second = self._one((1, 5), lambda: tuple(self.draw.sample(range(10), 2)))
        return f"({column} = '{nation}{first}' OR {column} = '{nation}{second}')"

    def year(self, standard: int) -> int:
        """A year of which all months have orders."""
        return self._one(standard, lambda: self.draw.randint(*FULL_YEARS))

    def month(self) -> tuple[int, int]:
        """A year and its month."""
        return self._one((1994, 1), lambda: (self.draw.randint(*FULL_YEARS), self.draw.randint(1, 12)))

    def number(self, standard: int, low: int, high: int) -> int:
        """A number from low to high."""
        return self._one(standard, lambda: self.draw.randint(low, high))

    def category(self, standard: str) -> str:
        """One of 25 categories."""
        return self._one(standard, lambda: f"MFGR#{self.draw.randint(1, 5)}{self.draw.randint(1, 5)}")

    def two(self, standard: tuple[T, T], choices: list[T]) -> tuple[T, T]:
        """Two different ones of the choices, in order."""
        return self._one(standard, lambda: tuple(sorted(self.draw.sample(choices, 2))))


def flight_1(condition: str) -> str:
    """What revenue would be without some discounts."""
    return (
        "SELECT sum(lo_extendedprice * lo_discount) AS revenue FROM lineorder, date "
        f"WHERE lo_orderdate = d_datekey AND {condition}"
    )


def flight_2(condition: str) -> str:
    """Revenue of brands by year."""
    return (
        "SELECT sum(lo_revenue) AS revenue, d_year, p_brand1 FROM lineorder, date, part, supplier "
        f"WHERE lo_orderdate = d_datekey AND lo_partkey = p_partkey AND lo_suppkey = s_suppkey AND {condition} "
        "GROUP BY d_year, p_brand1 ORDER BY d_year, p_brand1"
    )


def flight_3(place: str, condition: str) -> str:
    """Revenue between places, cities or nations, by year."""
    return (
        f"SELECT c_{place}, s_{place}, d_year, sum(lo_revenue) AS revenue FROM customer, lineorder, supplier, date "
        f"WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey AND {condition} "
        f"GROUP BY c_{place}, s_{place}, d_year ORDER BY d_year ASC, revenue DESC, c_{place}, s_{place}"
    )


def flight_4(groups: str, condition: str) -> str:
    """Profit by year and more."""
    return (
        f"SELECT {groups}, sum(lo_revenue - lo_supplycost) AS profit FROM date, customer, supplier, part, lineorder "
        "WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey AND lo_orderdate = d_datekey "
        f"AND {condition} GROUP BY {groups} ORDER BY {groups}"
    )


def queries(round_number: int) -> dict[str, str]:
    """The queries of a round, by their names in the specification."""
    of = Constants(round_number)

    def discounts(standard: int) -> str:
        low = of.number(standard, 1, 7)
        return f"lo_discount BETWEEN {low} AND {low + 2}"

    def quantities() -> str:
        low = of.number(26, 1, 41)
        return f"lo_quantity BETWEEN {low} AND {low + 9}"

    def regions(both: str) -> str:
        return f"c_region = '{of.region(both)}' AND s_region = '{of.region(both)}'"

    def makers() -> str:
        first, second = of.two((1, 2), [1, 2, 3, 4, 5])
        return f"(p_mfgr = 'MFGR#{first}' OR p_mfgr = 'MFGR#{second}')"

    def two_years() -> str:
        first, second = of.two((1997, 1998), list(range(1992, 1999)))
        return f"(d_year = {first} OR d_year = {second})"

    def year_and_month() -> str:
        year, month = of.month()
        return f"d_yearmonthnum = {year * 100 + month}"

    def year_month() -> str:
        year, month = (1997, 12) if of.is_standard else of.month()
        return f"d_yearmonth = '{MONTHS[month - 1]}{year}'"

    # Brands compare as texts: x1 to x8 of one ten are eight brands, also in the tens from 10 to 39.
    brands = of.category("MFGR#22") + str(of.number(2, 1, 3))
    # Six of the seven years, as the specification's. Any year is drawn for it, so that what is drawn after it stays.
    first_year = 1992 + of.year(1992) % 2
    years = f"d_year >= {first_year} AND d_year <= {first_year + 5}"
    return {
        "1.1": flight_1(f"d_year = {of.year(1993)} AND {discounts(1)} AND lo_quantity < {of.number(25, 15, 35)}"),
        "1.2": flight_1(f"{year_and_month()} AND {discounts(4)} AND {quantities()}"),
        "1.3": flight_1(
            f"d_weeknuminyear = {of.number(6, 1, 52)} AND d_year = {of.year(1994)} AND {discounts(5)} AND {quantities()}"
        ),
        "2.1": flight_2(f"p_category = '{of.category('MFGR#12')}' AND s_region = '{of.region('AMERICA')}'"),
        "2.2": flight_2(f"p_brand1 BETWEEN '{brands}1' AND '{brands}8' AND s_region = '{of.region('ASIA')}'"),
        "2.3": flight_2(f"p_brand1 = '{brands}1' AND s_region = '{of.region('EUROPE')}'"),
        "3.1": flight_3("nation", f"{regions('ASIA')} AND {years}"),
        "3.2": flight_3(
            "city",
            f"c_nation = '{of.nation('UNITED STATES')}' AND s_nation = '{of.nation('UNITED STATES')}' AND {years}",
        ),
        "3.3": flight_3("city", f"{of.cities('c_city')} AND {of.cities('s_city')} AND {years}"),
        "3.4": flight_3("city", f"{of.cities('c_city')} AND {of.cities('s_city')} AND {year_month()}"),
        "4.1": flight_4("d_year, c_nation", f"{regions('AMERICA')} AND {makers()}"),
        "4.2": flight_4("d_year, s_nation, p_category", f"{regions('AMERICA')} AND {two_years()} AND {makers()}"),
        "4.3": flight_4(
            "d_year, s_city, p_brand1",
            f"c_region = '{of.region('AMERICA')}' AND s_nation = '{of.nation('UNITED STATES')}' AND {two_years()} "
            f"AND p_category = '{of.category('MFGR#14')}'",
        ),
    }


def main() -> None:
    """Prints a round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--round", type=int, default=0)
    for query in queries(parser.parse_args().round).values():
        print(query)


if __name__ == "__main__":
    main()
