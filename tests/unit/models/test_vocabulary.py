import pytest

from models.contract import History
from models.vocabulary import CATEGORY, ITEM, OUT_OF_VOCABULARY, USER, Vocabulary, build_vocabulary
from schemas.fields import Scalar
from schemas.item import Item
from schemas.user import User
from tests.builders import NOW_MS, click_of


def user_of(user_id: str, **attributes: Scalar) -> User:
    return User(user_id=user_id, ts=NOW_MS, attributes=attributes)


@pytest.fixture
def vocabulary() -> Vocabulary:
    users = {str(age): user_of(str(age), age=age, job="artist" if age % 2 else "clerk") for age in range(20, 60)}
    items = {"b": Item(item_id="b", ts=NOW_MS, category="drama"), "c": Item(item_id="c", ts=NOW_MS)}
    return build_vocabulary(History((click_of("u", "a"), click_of("v", "b")), items, users))


def test_known_ids_are_counted_from_one_and_the_rest_is_zero(vocabulary: Vocabulary) -> None:
    assert vocabulary.indices(USER, ("u", "v", "w")) == [1, 2, OUT_OF_VOCABULARY]
    assert vocabulary.indices(ITEM, ("a", "b", "c", "")) == [1, 2, 3, OUT_OF_VOCABULARY]
    assert vocabulary.index(CATEGORY, "drama") == 1
    assert vocabulary.index(CATEGORY, None) == OUT_OF_VOCABULARY
    assert vocabulary.sizes[USER] == 3


def test_profile_texts_are_known_values_and_numbers_fall_into_deciles(vocabulary: Vocabulary) -> None:
    assert vocabulary.profile_features == ("profile.job", "profile.age")
    assert vocabulary.sizes["profile.age"] == 11
    youngest = vocabulary.profile_indices(user_of("x", age=3, job="clerk"))
    oldest = vocabulary.profile_indices(user_of("x", age=99, job="artist"))
    assert (youngest, oldest) == ([2, 1], [1, 10])


@pytest.mark.parametrize("value", [None, True, "old", 10**400, float("nan"), float("inf")])
def test_an_attribute_that_is_missing_or_no_number_is_out_of_vocabulary(vocabulary: Vocabulary, value: Scalar) -> None:
    assert vocabulary.profile_indices(user_of("x", age=value)) == [OUT_OF_VOCABULARY, OUT_OF_VOCABULARY]


def test_a_user_without_a_profile_is_out_of_vocabulary(vocabulary: Vocabulary) -> None:
    assert vocabulary.profile_indices(None) == [OUT_OF_VOCABULARY, OUT_OF_VOCABULARY]


def test_free_text_makes_no_feature() -> None:
    users = {str(number): user_of(str(number), motto=f"motto {number}") for number in range(1_001)}
    assert build_vocabulary(History((), {}, users)).profile_features == ()
