declare module "virtual:words" {
  const urls: Record<"en" | "zh", string>;
  export default urls;
}
