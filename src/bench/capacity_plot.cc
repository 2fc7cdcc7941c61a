// RunCapacityBench's report as a plot.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "bench/capacity_bench.h"

namespace holdfast::bench {
namespace {

constexpr double kWidth = 960;
constexpr double kHeight = 440;
constexpr double kLeft = 76;
constexpr double kRight = kWidth - 24;
constexpr double kTop = 76;
constexpr double kBottom = kHeight - 70;
constexpr double kLeastMs = 0.5;
constexpr double kMostMs = 10'000;
constexpr double kLabelWidth = 170;  // of a fault, in pixels: what is nearer goes into the next row
constexpr int kTicksMost = 11;

struct Curve {
  const char* name;
  const char* color;
  double LatencySummary::*figure;
};

constexpr Curve kCurves[] = {{"max", "#b8b8b8", &LatencySummary::max_ms},
                             {"p99", "#e07b00", &LatencySummary::p99_ms},
                             {"p50", "#2a62c9", &LatencySummary::p50_ms}};

class Plot {
 public:
  explicit Plot(const CapacityReport& report)
      : report_(report), seconds_(std::max(1.0, report.loads.uncontended.load.seconds)) {}

  std::string Draw() {
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"13\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        kWidth, kHeight);
    Text(kLeft, 24, "start", "#000",
         fmt::format("Uncontended acquire, latency in each second at {:.0f} acquires/s, p99 over "
                     "the run {:.0f} ms",
                     report_.options.rate, report_.loads.uncontended.load.acquire.p99_ms));
    DrawScales();
    for (const Curve& curve : kCurves) {
      DrawCurve(curve);
    }
    DrawLimit();
    DrawFaults();
    DrawLegend();
    return svg_ + "</svg>\n";
  }

 private:
  double X(double second) const { return kLeft + (kRight - kLeft) * second / seconds_; }
  static double Y(double ms) {
    const double part = std::log(std::clamp(ms, kLeastMs, kMostMs) / kLeastMs);
    return kBottom - (kBottom - kTop) * part / std::log(kMostMs / kLeastMs);
  }

  void Line(double x1, double y1, double x2, double y2, std::string_view style) {
    svg_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1,
                        y1, x2, y2, style);
  }

  // Our own words only: nothing in them needs an escape.
  void Text(double x, double y, const char* anchor, const char* color, std::string_view text) {
    svg_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n", x,
                    y, anchor, color, text);
  }

  void DrawScales() {
    for (const double ms : {1.0, 10.0, 100.0, 1000.0, 10'000.0}) {
      Line(kLeft, Y(ms), kRight, Y(ms), "stroke=\"#dddddd\"");
      Text(kLeft - 8, Y(ms) + 4, "end", "#000",
           ms < 1000 ? fmt::format("{} ms", ms) : fmt::format("{} s", ms / 1000));
    }
    Line(kLeft, kBottom, kRight, kBottom, "stroke=\"#000\"");
    constexpr std::array kSteps = {1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600};
    const auto* const step = std::find_if(kSteps.begin(), kSteps.end() - 1,
                                          [this](int s) { return seconds_ / s < kTicksMost; });
    for (int second = 0; second <= seconds_; second += *step) {
      Line(X(second), kBottom, X(second), kBottom + 5, "stroke=\"#000\"");
      Text(X(second), kBottom + 20, "middle", "#000", fmt::format("{} s", second));
    }
  }

  // With gaps where nothing was acquired; a second between gaps is a dot.
  void DrawCurve(const Curve& curve) {
    std::string path;
    bool drawing = false;
    for (const LoadSecond& second : report_.loads.uncontended.load.timeline) {
      if (second.acquire.count == 0) {
        drawing = false;
        continue;
      }
      path += fmt::format("{}{:.1f} {:.1f}", drawing ? " L" : " M", X(second.at + 0.5),
                          Y(second.acquire.*curve.figure));
      path += drawing ? "" : " h0";
      drawing = true;
    }
    svg_ += fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" "
        "stroke-linecap=\"round\" stroke-linejoin=\"round\"/>\n",
        path, curve.color);
  }

  void DrawLimit() {
    const double y = Y(kAcquireP99LimitMs);
    Line(kLeft, y, kRight, y, "stroke=\"#cc0000\" stroke-width=\"1.2\"");
    Text(kLeft - 8, y + 4, "end", "#cc0000", fmt::format("{} ms", kAcquireP99LimitMs));
  }

  void DrawFaults() {
    double last = -kWidth;
    int row = 0;
    for (const CapacityFault& fault : report_.faults) {
      const double x = X(std::clamp(fault.at_s, 0.0, seconds_));
      row = x - last < kLabelWidth ? 1 - row : 0;
      last = x;
      const double label = kTop - 10 - 16.0 * row;
      Line(x, label - 10, x, kBottom, "stroke=\"#555555\" stroke-dasharray=\"5 4\"");
      const bool left = x + kLabelWidth > kRight;
      Text(left ? x - 6 : x + 6, label, left ? "end" : "start", "#333",
           fmt::format("{:.0f} s: {}", fault.at_s, fault.what));
    }
  }

  void DrawLegend() {
    double x = kLeft;
    const double y = kHeight - 18;
    for (auto curve = std::rbegin(kCurves); curve != std::rend(kCurves); ++curve, x += 90) {
      Line(x, y - 4, x + 24, y - 4,
           fmt::format("stroke=\"{}\" stroke-width=\"2.4\"", curve->color));
      Text(x + 30, y, "start", "#000", curve->name);
    }
    Line(x, y - 4, x + 24, y - 4, "stroke=\"#cc0000\" stroke-width=\"1.2\"");
    Text(x + 30, y, "start", "#000", "limit of p99 over the run");
    Text(kRight, y, "end", "#000", "time since the begin of the measurement");
  }

  const CapacityReport& report_;
  const double seconds_;
  std::string svg_;
};

}  // namespace

std::string ToPlot(const CapacityReport& report) {
  return Plot(report).Draw();
}

}  // namespace holdfast::bench
