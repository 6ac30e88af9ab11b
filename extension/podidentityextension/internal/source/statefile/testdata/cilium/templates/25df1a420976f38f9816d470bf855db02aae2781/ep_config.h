/*
 * template
 */
