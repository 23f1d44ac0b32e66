/**
 * The text format of Prometheus, version 0.0.4: every metric with its help and
 * type, all samples of one metric together, a line feed behind the last.
 */
import { Histogram } from "./histogram.ts";

export const EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export type Labels = Readonly<Record<string, string | number>>;

export interface Sample {
  readonly labels?: Labels;
  readonly value: number | Histogram;
}

export interface Metric {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly samples: readonly Sample[];
}

/** A metric of one sample without labels, or of none while it is not known. */
export function single(
  type: Metric["type"],
  name: string,
  help: string,
  value: Sample["value"] | undefined,
): Metric {
  return { name, help, type, samples: value === undefined ? [] : [{ value }] };
}

/** Metrics without a sample are left out. */
export function encodeMetrics(metrics: readonly Metric[]): string {
  return metrics.map(encodeMetric).join("");
}

function encodeMetric({ name, help, type, samples }: Metric): string {
  const lines = samples.flatMap(({ labels, value }) =>
    value instanceof Histogram
      ? encodeHistogram(name, labels, value)
      : encodeSample(name, labels, value),
  );
  if (lines.length === 0) return "";
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}

function encodeHistogram(name: string, labels: Labels | undefined, histogram: Histogram): string[] {
  const counts = histogram.cumulative();
  const bounds = [...histogram.bounds, Number.POSITIVE_INFINITY];
  return [
    ...bounds.map((le, at) =>
      encodeSample(`${name}_bucket`, { ...labels, le: encodeNumber(le) }, counts[at] ?? 0),
    ),
    encodeSample(`${name}_sum`, labels, histogram.sum),
    encodeSample(`${name}_count`, labels, counts.at(-1) ?? 0),
  ];
}

function encodeSample(name: string, labels: Labels | undefined, value: number): string {
  const pairs = Object.entries(labels ?? {}).map(
    ([label, text]) => `${label}="${escapeLabel(String(text))}"`,
  );
  const suffix = pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
  return `${name}${suffix} ${encodeNumber(value)}\n`;
}

function escapeLabel(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

function encodeNumber(value: number): string {
  return value === Number.POSITIVE_INFINITY ? "+Inf" : String(value);
}
