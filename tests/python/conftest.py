import numpy as np
import pytest
from libraries import NAMES, library


@pytest.fixture(params=NAMES)
def lib(request):
    return library(request.param)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def random():
    return np.random.default_rng(7)
