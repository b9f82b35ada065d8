#pragma once

// The whole C++ interface.

#include <ragged/declare.hpp>
#include <ragged/error.hpp>
#include <ragged/executor.hpp>
#include <ragged/flashinfer_wrappers.hpp>
#include <ragged/helpers.hpp>
#include <ragged/layout.hpp>
#include <ragged/manager.hpp>
#include <ragged/plan.hpp>
#include <ragged/run.hpp>
#include <ragged/version.hpp>
#include <ragged/wrappers.hpp>
